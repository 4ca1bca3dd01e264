import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requestAccess } from '../../src/flows/request-access.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { sweep } from '../../src/flows/sweep.ts'
import { createWorld, type World } from '../support/world.ts'

/** Faults that a hostile reading once found, each named after what went wrong. */
describe('found by trying to break it', () => {
  let world: World
  beforeAll(async () => {
    world = await createWorld()
  })
  afterAll(() => world.close())

  const uuids = (n: number) => Array.from({ length: n }, () => crypto.randomUUID())

  it('a narrow as long as the contract allows is asked, answered twice the same, and not a server error', async () => {
    const session = await world.start('maya')
    const item = { permission: 'accounts.rows:my_region', narrow: { id: { $in: uuids(180) } } }
    const first = await world.ask(session, [item])
    const again = await world.ask(session, [item])
    expect(first.value.items[0]?.verdict.outcome).toBe('asked')
    // Nobody is asked twice, however long it is.
    expect(again.value.requestId).toBe(first.value.requestId)
  })

  it('calls that are not understood are charged like those that are (USER-ASKS 33)', async () => {
    const session = await world.start('maya')
    const caller = await world.asAgent(session)
    const bad = { items: [{ permission: 'accounts:read', resource: 'x/y' }], reason: 'again' }
    const codes: string[] = []
    for (let i = 0; i < 31; i++) {
      const result = await requestAccess(world.ctx, caller, bad)
      codes.push(result.ok ? 'ok' : result.fault.code)
    }
    expect(codes.slice(0, 30)).toEqual(Array(30).fill('item_invalid'))
    expect(codes[30]).toBe('limit_reached')
  })

  it('a live session does not start a child template that the adopted version dropped', async () => {
    const session = await world.start('maya')
    const start = async () =>
      startSubagent(world.ctx, await world.asAgent(session), {
        template: 'email-drafter',
        readOnly: true,
      })
    expect((await start()).ok).toBe(true)
    await world.rows(
      `insert into template_version
         select (jsonb_populate_record(v, '{"version": 9, "children": []}')).* from template_version v
         join template t on t.id = v.template_id where t.name = 'renewal-briefs' and v.version = 3`,
    )
    await world.rows(
      `update enablement set adopted_version = 9
       where template_id = (select id from template where name = 'renewal-briefs')`,
    )
    expect(await start()).toMatchObject({ ok: false, fault: { code: 'child_not_allowed' } })
  })

  it('signed-in browsers and sign-ins that ran out are forgotten', async () => {
    await world.rows(
      `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, created_at)
       select 'idp_sweep', id, 'https://idp.sweep.example', 'x', '{}', now() from tenant where slug = 'acme'`,
    )
    await world.rows(
      `insert into sign_in select 'h', id, 'b', 'idp_sweep', 'v', 'n', '/', to_timestamp(0) from tenant where slug = 'acme'`,
    )
    await world.rows(
      `insert into browser_session select 'h', u.tenant_id, u.id, 'c', 'idp_sweep', 'token', to_timestamp(0), to_timestamp(0)
       from app_user u where u.login = 'maya' limit 1`,
    )
    await sweep(world.ctx)
    const left = await world.rows(
      `select state_hash from sign_in union all select id_hash from browser_session`,
    )
    expect(left).toEqual([])
  })
})
