import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { searchCatalog } from '../../src/db/catalog.ts'
import { openEmbedded } from '../../src/db/open.ts'
import { type SqlValue, withTx } from '../../src/db/tx.ts'
import { demoFacts } from '../../src/demo/facts.ts'
import { newDemoSecrets, rebaseDemo, seedDemo } from '../../src/demo/seed.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { systemClock, systemIds } from '../../src/ids.ts'
import type { Ctx } from '../../src/ports.ts'
import { runOn } from '../support/databases.ts'

/** The demo world is SPEC section 12's, row by row. */
let ctx: Ctx
let secrets: Awaited<ReturnType<typeof newDemoSecrets>>
const rows = <T>(sql: string, params: readonly SqlValue[] = []) => runOn(ctx.db)<T>(sql, params)

beforeAll(async () => {
  ctx = {
    db: await openEmbedded(null),
    clock: systemClock,
    ids: systemIds,
    notify: { kick: () => {}, subscribe: () => () => {} },
    publicUrl: 'http://localhost:4000',
  }
  secrets = await newDemoSecrets()
  expect(await seedDemo(ctx, { secrets })).toEqual({ seeded: true })
})
afterAll(() => ctx.db.close())

test('a second start seeds nothing', async () => {
  const count = 'select count(*)::integer as n from app_user'
  const before = await rows(count)
  expect(await seedDemo(ctx, { secrets: await newDemoSecrets() })).toEqual({ seeded: false })
  expect(await rows(count)).toEqual(before)
})

test('people, by tenant', async () => {
  const people = await rows(
    `select t.slug || '/' || u.login as who, array_to_string(u.staff_roles, ',') as staff,
       u.attributes ->> 'region' as region
     from app_user u join tenant t on t.id = u.tenant_id order by 1`,
  )
  expect(people).toEqual([
    { who: 'acme/adam', staff: 'org_admin', region: null },
    { who: 'acme/cleo', staff: 'auditor', region: null },
    { who: 'acme/maya', staff: '', region: 'emea' },
    { who: 'acme/omar', staff: '', region: 'amer' },
    { who: 'globex/gus', staff: 'org_admin', region: 'emea' },
    { who: 'studio/bo', staff: 'builder', region: null },
    { who: 'studio/ines', staff: 'org_admin', region: null },
    { who: 'studio/rhea', staff: 'reviewer', region: null },
  ])
})

const accessOf = async (login: string) => {
  const held = await rows<{ item: string }>(
    `select a.via || ' ' || a.permission_id || coalesce(' on ' || a.resource, '') as item
     from user_access a join app_user u on u.id = a.user_id where u.login = $1 order by 1`,
    [login],
  )
  return held.map((row) => row.item)
}
const MANAGER = [
  'group accounts:read',
  'group accounts.rows:my_region',
  'group contracts.fields:pricing',
  'group email:send on domain/*',
  'group email-templates:write',
]

test('what maya, omar and gus may do, and by what', async () => {
  const manager = [...MANAGER].sort()
  expect((await accessOf('omar')).sort()).toEqual(manager)
  expect((await accessOf('gus')).sort()).toEqual(manager)
  const direct = 'direct dashboard:view on dashboard/q3-pipeline'
  expect((await accessOf('maya')).sort()).toEqual([direct, ...manager].sort())
})

test.each(['adam', 'cleo', 'bo', 'rhea', 'ines'])('%s may lend nothing', async (login) => {
  expect(await accessOf(login)).toEqual([])
})

test('account managers see no phone, whatever an agent is granted', async () => {
  const found = await rows(
    `select r.entity, r.masks, g.name from restriction r join user_group g on g.id = r.group_id
     join tenant t on t.id = r.tenant_id where t.slug = 'acme'`,
  )
  expect(found).toEqual([{ entity: 'account', masks: ['phone'], name: 'account-managers' }])
})

describe('the catalog', () => {
  test('never delegable are these, and no others', async () => {
    const found = await rows<{ id: string }>(
      'select id from permission where not delegable order by id',
    )
    expect(found.map((row) => row.id)).toEqual([
      'billing:admin',
      'consent:manage',
      'emergency:access',
      'iam:admin',
    ])
  })

  test('only pricing is sensitive', async () => {
    expect(await rows('select id from permission where sensitive')).toEqual([
      { id: 'contracts.fields:pricing' },
    ])
  })

  test('every permission has a bit of its own, from 0 on', async () => {
    const bits = await rows<{ bit: number }>('select bit from permission order by bit')
    expect(bits.map((row) => row.bit)).toEqual(bits.map((_, i) => i))
  })

  test.each([
    ['list customers that are up for renewal', 'accounts.rows:my_region'],
    ['quote a price', 'contracts.fields:pricing'],
    ['write a draft', 'email-templates:write'],
    ['message the client', 'email:send'],
    ['look at the forecast chart', 'dashboard:view'],
  ])('“%s” finds %s', async (task, id) => {
    const found = await withTx(ctx.db, 'test', (tx) => searchCatalog(tx, { task, limit: 3 }))
    expect(found.map((row) => row.id)).toContain(id)
  })
})

test('the ceilings are the specification’s', async () => {
  const found = await rows(
    `select t.name || '@' || v.version as version, v.status, v.modes, v.children,
       (select jsonb_agg((c ->> 'permission') || coalesce(' on ' || (c ->> 'resource'), ''))
        from jsonb_array_elements(v.ceiling) c) as ceiling
     from template_version v join template t on t.id = v.template_id
     where (t.name, v.version) in (('renewal-briefs', 3), ('email-drafter', 1)) order by 1`,
  )
  const modes = ['ask', 'auto', 'bypass']
  expect(found).toEqual([
    {
      version: 'email-drafter@1',
      status: 'published',
      modes,
      children: [],
      ceiling: [
        'email-templates:write',
        'accounts:read',
        'accounts.rows:my_region',
        'dashboard:view on dashboard/*',
        'contracts.fields:pricing',
      ],
    },
    {
      version: 'renewal-briefs@3',
      status: 'published',
      modes,
      children: [{ template: 'email-drafter', version: 1 }],
      ceiling: [
        'accounts:read',
        'accounts.rows:my_region',
        'dashboard:view on dashboard/*',
        'contracts.fields:pricing',
        'email:send on domain/*',
      ],
    },
  ])
})

test('acme keeps everything; globex turned bypass off and pricing away', async () => {
  const found = await rows<{ who: string; modes: string[]; pricing: boolean; kept: number }>(
    `select t.slug || ' ' || p.name || '@' || e.adopted_version as who, e.modes,
       e.kept @> '[{"permission": "contracts.fields:pricing"}]' as pricing,
       jsonb_array_length(e.kept) as kept
     from enablement e join tenant t on t.id = e.tenant_id join template p on p.id = e.template_id
     where e.status = 'on' order by 1`,
  )
  const all = ['ask', 'auto', 'bypass']
  const tight = ['ask', 'auto']
  expect(found).toEqual([
    { who: 'acme email-drafter@1', modes: all, pricing: true, kept: 5 },
    { who: 'acme renewal-briefs@3', modes: all, pricing: true, kept: 5 },
    { who: 'globex email-drafter@1', modes: tight, pricing: false, kept: 4 },
    { who: 'globex renewal-briefs@3', modes: tight, pricing: false, kept: 4 },
  ])
})

test('no secret is kept in clear, and no two installations share one', async () => {
  const stored = await rows<{ text: string }>(
    `select to_jsonb(a)::text as text from agent a
     union all select to_jsonb(e)::text from enforcement_point e`,
  )
  const all = stored.map((row) => row.text).join('\n')
  const known = [...Object.values(secrets.agents), ...Object.values(secrets.enforcementPoints)]
  const given = known.flatMap((one) => Object.values(one))
  expect(given).toHaveLength(new Set(given).size)
  for (const secret of given) expect(all).not.toContain(secret)
  const others = JSON.stringify(await newDemoSecrets())
  for (const secret of given) expect(others).not.toContain(secret)
})

test('how the world came to be is on record, and the record holds', async () => {
  const types = await rows(
    'select type, count(*)::integer as n from activity group by type order by type',
  )
  expect(types).toEqual([
    { type: 'catalog.published', n: 5 },
    { type: 'enablement.adopted', n: 4 },
    { type: 'template.published', n: 4 },
    { type: 'template.retired', n: 1 },
  ])
  const tenants = await rows<{ id: never }>('select id from tenant')
  for (const { id } of tenants)
    expect(await verifyActivity(ctx, { tenantId: id })).toMatchObject({ ok: true })
})

test('every tenant has keys, and its own provider and no other’s', async () => {
  const found = await rows(
    `select t.slug, i.issuer, i.audience, i.first_party_clients as clients, i.private_network as private,
       (select array_agg(k.alg order by k.alg) from signing_key k where k.tenant_id = t.id) as keys
     from tenant t join identity_provider i on i.tenant_id = t.id order by t.slug`,
  )
  const of = (slug: string) => ({
    slug,
    issuer: `http://localhost:4000/demo/idp/${slug}`,
    audience: `http://localhost:4000/t/${slug}`,
    clients: ['lend-web'],
    private: true,
    keys: ['ES256', 'RS256'],
  })
  expect(found).toEqual([of('acme'), of('globex'), of('studio')])
})

test('a public URL that moves takes issuers, people and resource servers along, and nothing else', async () => {
  const own = 'https://api.customer.example/demo/accounts'
  await rows(
    `insert into resource_server (id, tenant_id, resource, name, services, created_at)
     select 'rsv_own', id, '${own}', 'own', '{accounts}', now() from tenant where slug = 'acme'`,
  )
  expect(await rebaseDemo(ctx)).toEqual({ moved: 0 })
  const moved = { ...ctx, publicUrl: 'http://127.0.0.1:5001' }
  expect(await rebaseDemo(moved)).toEqual({ moved: 3 })
  expect(await rebaseDemo(moved)).toEqual({ moved: 0 })
  const left = await rows(
    `select issuer as at from identity_provider union all select issuer from app_user
     union all select audience from identity_provider union all select resource from resource_server`,
  )
  const texts = left.map((row) => String((row as { at: string }).at))
  expect(texts.filter((text) => !text.startsWith('http://127.0.0.1:5001/'))).toEqual([own])
  const facts = await demoFacts(moved, 'acme')
  expect(facts?.resourceServers[0]).toEqual({
    resource: 'http://127.0.0.1:5001/demo/accounts',
    subject: 'session',
  })
  expect(await rebaseDemo(ctx)).toEqual({ moved: 3 })
})
