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

  it('a child template is started only in the version that was reviewed with its parent (SPEC section 3)', async () => {
    await world.rows(
      `update enablement set adopted_version = adopted_version where template_id in (select id from template)`,
    )
    const [child] = await world.rows<{ id: string; version: number }>(
      `select t.id, max(v.version) as version from template t join template_version v on v.template_id = t.id
       where t.name = 'email-drafter' group by t.id`,
    )
    if (child === undefined) throw new Error('the world has an email-drafter')
    await world.rows(
      `insert into template_version select template_id, version + 1, status, purpose, ceiling, context, modes, limits,
         children, sensitive, sponsor, author, reviewer, published_at from template_version
       where template_id = $1 and version = $2`,
      [child.id, child.version],
    )
    const session = await world.start('maya')
    const before = await startSubagent(world.ctx, await world.asAgent(session), {
      template: 'email-drafter',
      readOnly: true,
    })
    expect(before.ok).toBe(true)
    await world.rows(`update enablement set adopted_version = $2 where template_id = $1`, [
      child.id,
      child.version + 1,
    ])
    const after = await startSubagent(world.ctx, await world.asAgent(session), {
      template: 'email-drafter',
      readOnly: true,
    })
    expect(after).toMatchObject({ ok: false, fault: { code: 'template_version_not_adopted' } })
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
