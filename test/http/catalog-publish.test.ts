import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Answer, createPeople, type Json, type People } from '../support/people.ts'
import { serviceSecret } from '../support/world-seed.ts'

/** A service's CI publishes what it lends (SPEC section 2); what loosens waits for security. */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const basic = (id: string, secret: string) => ({
  Authorization: `Basic ${Buffer.from(`${id}:${encodeURIComponent(secret)}`).toString('base64')}`,
})
const own = (service: string) => basic(`scl_${service}`, serviceSecret(service))
type How = { headers?: Record<string, string>; tenant?: string; query?: string }
const send = (method: string, path: string, body: unknown, how: How) =>
  people.call(null, method, path, {
    body,
    tenant: how.tenant ?? 'studio',
    headers: how.headers ?? {},
  })
const put = (service: string, body: unknown, how: How = {}) =>
  send('PUT', `/catalog/services/${service}${how.query ?? ''}`, body, {
    headers: own(service),
    ...how,
  })

const READ = {
  ...{ id: 'accounts:read', kind: 'api', title: 'Accounts API · Read' },
  description: 'Reads account records through the Accounts API.',
  ...{ access: 'read', risk: 'low' },
}
const ROWS = {
  ...{ id: 'accounts.rows:my_region', kind: 'data', title: 'Account rows · Own region' },
  description: 'Rows of accounts in the person’s own region.',
  ...{ access: 'read', risk: 'low' },
  data: {
    entity: 'accounts',
    rows: { region: { $user: 'region' } },
    fields: ['id', 'name', 'region', 'renewal_in_days', 'phone'],
  },
}
const BILLING = {
  ...{ id: 'billing:admin', kind: 'api', title: 'Billing · Admin', access: 'admin', risk: 'high' },
  ...{ description: 'Administers billing.', delegable: false },
}
const LIST = {
  ...{ method: 'GET', pattern: '/accounts', access: 'ACCESS_CONTROLLED' },
  permissions: ['accounts:read'],
}
const file = (more: object = {}) => ({
  permissions: [READ, ROWS, BILLING],
  endpoints: [LIST],
  ...more,
})
const good = async (body: unknown = file(), how: How = {}) => {
  const answer = await put('accounts', body, how)
  expect([answer.status, answer.body.errors], JSON.stringify(answer.body)).toEqual([
    answer.body.published === true ? 201 : 200,
    undefined,
  ])
  return answer.body
}
const bits = async () =>
  Object.fromEntries(
    (await people.world.rows<{ id: string; bit: number }>('select id, bit from permission')).map(
      (row) => [row.id, row.bit],
    ),
  )
const effects = (body: Json) =>
  ((body.changes ?? []) as Json[]).map((c) => `${c.id} ${c.what} ${c.effect}`)
const errors = (answer: Answer) =>
  ((answer.body.errors ?? []) as Json[]).map((e) => `${e.path} ${e.message}`)
const records = (type: string) =>
  people.world.rows<{ tenant_id: string; data: Json }>(
    'select tenant_id, data from activity where type = $1 order by n',
    [type],
  )
const review = (id: unknown, body: object, as: 'rhea' | 'bo' = 'rhea') =>
  people.call(as, 'POST', `/catalog/proposals/${String(id)}/review`, { body })
const entry = async (id: string) => (await people.call('maya', 'GET', `/catalog/${id}`)).body
const reasonFor = async (session: Awaited<ReturnType<People['world']['start']>>, id: string) =>
  (await people.world.ask(session, [{ permission: id }])).value.items[0]?.verdict.reason

describe('who may publish', () => {
  test('the service’s own client, and nobody else', async () => {
    const before = await people.world.rows('select * from registry')
    // An agent that can be authenticated.
    await people.world.rows(
      `update agent set secret_hash = encode(sha256('x'), 'hex') where id = 'agt_briefs'`,
    )
    const refused: [string, How, number][] = [
      ['nobody', { headers: {} }, 401],
      ['another service’s client', { headers: own('mail') }, 403],
      ['a wrong secret', { headers: basic('scl_accounts', 'guess') }, 401],
      ['a person of the operator', { headers: { Authorization: 'Bearer token-of-rhea' } }, 401],
      ['an agent’s client', { headers: basic('agt_briefs', 'x'), tenant: 'acme' }, 403],
      ['the right client at another tenant', { headers: own('accounts'), tenant: 'acme' }, 401],
      ['the right client nowhere', { headers: own('accounts'), tenant: 'nowhere' }, 404],
    ]
    for (const [who, how, status] of refused)
      expect([who, (await put('accounts', file(), how)).status]).toEqual([who, status])
    expect(await people.world.rows('select * from registry')).toEqual(before)
    expect((await put('accounts', file())).status).toBe(201)
  })

  test('a client that was disabled or whose secret was changed no more', async () => {
    expect((await put('accounts', file())).status).toBe(201)
    const set = (to: string) => people.world.rows(`update service_client set ${to}`)
    await set(`status = 'disabled'`)
    expect((await put('accounts', file())).status).toBe(401)
    await set(`status = 'active'`)
    expect((await put('accounts', file())).status).toBe(200)
    await set(`secret_hash = repeat('0', 64)`)
    expect((await put('accounts', file())).status).toBe(401)
  })

  test('a person who is not security reviews nothing', async () => {
    const { proposal } = await good(
      file({ endpoints: [{ ...LIST, access: 'OPEN', permissions: [] }] }),
    )
    // Nothing was there before, so nothing waits yet.
    expect(proposal).toBeUndefined()
    const lower = await good(
      file({ permissions: [{ ...READ }, ROWS, { ...BILLING, delegable: true }] }),
    )
    expect((await review(lower.proposal, { verdict: 'approve' }, 'bo')).status).toBe(403)
    const elsewhere = await people.call('adam', 'GET', '/catalog/proposals')
    expect(elsewhere.status).toBe(404)
  })
})

describe('what is wrong with a file', () => {
  test('is said all at once, each by its pointer', async () => {
    const answer = await put('accounts', {
      permissions: [
        { ...READ, bit: 3 },
        { ...READ, id: 'Accounts' },
        { ...ROWS, data: { ...ROWS.data, rows: { region: { $regex: 'x' } } } },
        { ...READ, id: 'email:send' },
        {
          ...READ,
          id: 'x:y',
          kind: 'tool',
          tool: { tools: ['mail/send_email'], destination: 'to' },
        },
        { ...READ, id: 'x:z', kind: 'asset' },
        READ,
      ],
      endpoints: [
        { ...LIST, permissions: ['nothing:here'] },
        { ...LIST, pattern: '/a/{x}' },
        { ...LIST, pattern: '/a/{y}' },
        { ...LIST, pattern: '/a/../b' },
      ],
    })
    expect([answer.status, answer.body.code]).toEqual([422, 'unprocessable'])
    const said = errors(answer).join('\n')
    for (const one of [
      '/permissions/0/bit is never in the file',
      '/permissions/1/id must be name[.name…]:action',
      '/permissions/2/data/rows/region/$regex unknown operator',
      '/permissions/3/id belongs to the service mail',
      '/permissions/4/tool/destination must be a JSON pointer',
      '/permissions/4/tool/tools/0 must be a tool of accounts',
      '/permissions/5/asset is required for kind asset',
      '/permissions/6/id is in the file twice',
      '/endpoints/0/permissions/0 is a permission that is not in the catalog',
      '/endpoints/2/pattern matches exactly what GET /a/{x} does',
      '/endpoints/3/pattern has a . or .. segment',
    ])
      expect(said).toContain(one)
    expect(await records('catalog.published')).toEqual([])
  })

  test('a permission keeps its kind', async () => {
    const answer = await put(
      'accounts',
      file({ permissions: [{ ...READ, kind: 'asset', asset: { type: 'a' } }] }),
    )
    expect(errors(answer)).toContainEqual(expect.stringContaining('/permissions/0/kind is api'))
  })
})

describe('a publish', () => {
  test('is a numbered version with its record; the same again is none; a stale base is refused', async () => {
    const first = await good()
    expect(first).toMatchObject({ service: 'accounts', version: 2, published: true })
    expect(await good()).toMatchObject({ version: 2, published: false })
    const [record, ...more] = await records('catalog.published')
    expect(more).toEqual([])
    expect(record).toMatchObject({
      tenant_id: 'ten_studio',
      data: { service: 'accounts', version: 2, by: 'scl_accounts' },
    })
    const next = file({ permissions: [{ ...READ, title: 'Accounts' }, ROWS, BILLING] })
    expect((await put('accounts', next, { query: '?base_version=1' })).body.code).toBe(
      'catalog_changed',
    )
    const stale = { ...own('accounts'), 'If-Match': '"1"' }
    expect((await put('accounts', next, { headers: stale })).status).toBe(409)
    const fresh = { ...own('accounts'), 'If-Match': '"2"' }
    const third = await put('accounts', next, { headers: fresh })
    expect([third.status, third.headers.get('etag')]).toEqual([201, '"3"'])
  })

  test('keeps every bit, of what goes and comes back too, and gives none twice', async () => {
    const before = await bits()
    const fresh = { ...READ, id: 'accounts:fresh', title: 'Fresh' }
    await good(file({ permissions: [fresh, BILLING, ROWS], endpoints: [] }))
    expect((await people.call('maya', 'GET', '/catalog/accounts:read')).status).toBe(404)
    await good(file({ permissions: [{ ...fresh, id: 'accounts:other' }, READ, BILLING, ROWS] }))
    const after = await bits()
    expect(after).toMatchObject(before)
    expect(new Set(Object.values(after)).size).toBe(Object.keys(after).length)
    expect((await entry('accounts:read')).bit).toBe(before['accounts:read'])
  })

  test('puts its endpoints where forward-auth reads them', async () => {
    await good()
    expect(await people.world.rows('select * from endpoint_permission')).toEqual([
      ...[
        {
          service_id: 'accounts',
          method: 'GET',
          pattern: '/accounts',
          permission_id: 'accounts:read',
        },
      ],
    ])
    const told = await people.world.rows(
      `select id from gateway_feed where topic = 'gateway_changed'`,
    )
    expect(told.length).toBeGreaterThan(0)
  })

  test('a difference can be seen before, and writes nothing', async () => {
    await good()
    const next = file({
      permissions: [{ ...READ, risk: 'high' }, ROWS, { ...BILLING, delegable: true }],
    })
    const state = () => people.world.rows('select * from registry order by 1')
    const before = await state()
    const diff = await send('POST', '/catalog/services/accounts/diff', next, {
      headers: own('accounts'),
    })
    expect(diff.body).toMatchObject({ base_version: 2, waits: true })
    expect(effects(diff.body)).toEqual([
      'accounts:read risk tightens',
      'billing:admin delegable loosens',
    ])
    expect(await state()).toEqual(before)
  })
})

describe('tightening takes effect at once', () => {
  test('a risk that was raised asks in mode auto', async () => {
    const [one, two] = [
      await people.world.start('maya', { mode: 'auto' }),
      await people.world.start('maya', { mode: 'auto' }),
    ]
    expect(await reasonFor(one, 'accounts:read')).toBe('mode_auto')
    await good(file({ permissions: [{ ...READ, risk: 'high' }, ROWS, BILLING] }))
    expect(await reasonFor(two, 'accounts:read')).toBe('mode_ask')
  })

  test('what became sensitive asks in mode bypass', async () => {
    const session = await people.world.start('maya', { mode: 'bypass' })
    await good(file({ permissions: [{ ...READ, sensitive: true }, ROWS, BILLING] }))
    expect(await reasonFor(session, 'accounts:read')).toBe('sensitive')
  })

  test.each([
    ['never delegable', [{ ...READ, delegable: false }, ROWS, BILLING], 'never_delegable'],
    ['removed', [ROWS, BILLING], 'unknown_permission'],
  ])(
    '%s: its grants end, children’s too, versions rise, and nobody gets it again',
    async (_, permissions, reason) => {
      const session = await people.world.start('maya', { mode: 'bypass' })
      expect(await reasonFor(session, 'accounts:read')).toBe('mode_bypass')
      expect(await reasonFor(session, 'accounts.rows:my_region')).toBe('mode_bypass')
      const child = await people.world.subagent(session)
      const published = await good({ permissions, endpoints: [] })
      expect(published).toMatchObject({ grants_ended: 2, sessions_narrowed: 2 })
      const rows = await people.world.rows<{ id: string; version: number; held: string[] }>(
        `select s.id, s.version, array(select permission_id from access_grant g where g.session_id = s.id) as held
       from session s order by depth`,
      )
      expect(rows).toEqual([
        { id: session, version: 2, held: ['accounts.rows:my_region'] },
        { id: child, version: 2, held: ['accounts.rows:my_region'] },
      ])
      expect(await reasonFor(session, 'accounts:read')).toBe(reason)
      const ended = await records('grant.ended')
      expect(ended.map((r) => r.data.reason).sort()).toEqual(['catalog_changed', 'catalog_changed'])
    },
  )
})

describe('loosening', () => {
  const LOOSE = { ...READ, access: 'write' }
  const looser = file({
    permissions: [LOOSE, { ...ROWS, title: 'Rows' }, { ...BILLING, delegable: true }],
    endpoints: [{ ...LIST, access: 'AUTHENTICATED', permissions: [] }],
  })
  test('waits, while the rest counts; approved, it is a further version', async () => {
    await good()
    const published = await good(looser)
    expect(published).toMatchObject({ version: 3, published: true })
    expect(await entry('billing:admin')).toMatchObject({ delegable: false })
    expect(await entry('accounts.rows:my_region')).toMatchObject({ title: 'Rows' })
    expect(await people.world.rows('select access from endpoint')).toEqual([
      { access: 'ACCESS_CONTROLLED' },
    ])
    const open = await people.call('rhea', 'GET', '/catalog/proposals?status=open')
    const [proposal] = open.body.items as Json[]
    expect(effects(proposal ?? {})).toEqual([
      'accounts:read access loosens',
      'billing:admin delegable loosens',
      'GET /accounts access loosens',
    ])
    // The same again is the same proposal.
    expect(await good(looser)).toMatchObject({ published: false, proposal: proposal?.id })
    const approved = await review(proposal?.id, { verdict: 'approve' })
    expect(approved.body).toMatchObject({ status: 'approved', version: 4, reviewed_by: 'usr_rhea' })
    expect(await entry('billing:admin')).toMatchObject({ delegable: true })
    expect(await people.world.rows('select access from endpoint')).toEqual([
      { access: 'AUTHENTICATED' },
    ])
    expect((await review(proposal?.id, { verdict: 'approve' })).status).toBe(409)
    expect((await records('catalog.proposed')).length).toBe(1)
    expect((await records('catalog.reviewed')).map((r) => r.data.verdict)).toEqual(['approve'])
  })

  test('is sent back with a word, or replaced by the next publish', async () => {
    await good()
    const first = await good(looser)
    const silent = await review(first.proposal, { verdict: 'send_back' })
    expect([silent.status, errors(silent)]).toEqual([
      400,
      ['comment is required to send a proposal back'],
    ])
    const sent = await review(first.proposal, { verdict: 'send_back', comment: 'Why?' })
    expect(sent.body).toMatchObject({ status: 'sent_back', comment: 'Why?' })
    const second = await good(looser)
    expect(second.proposal).not.toBe(first.proposal)
    await good(file({ permissions: [READ, { ...ROWS, title: 'Rows' }, BILLING] }))
    const all = await people.call('rhea', 'GET', '/catalog/proposals')
    expect((all.body.items as Json[]).map((p) => p.status).sort()).toEqual([
      'replaced',
      'sent_back',
    ])
    expect((await review(second.proposal, { verdict: 'approve' })).status).toBe(409)
  })

  test('is not done by taking a never-delegable permission away and putting it back', async () => {
    await good()
    await good(file({ permissions: [READ, ROWS] }))
    const back = await good(file({ permissions: [READ, ROWS, { ...BILLING, delegable: true }] }))
    expect(back.proposal).toBeDefined()
    expect(await entry('billing:admin')).toMatchObject({ delegable: false })
  })

  test('nor by taking an endpoint away and putting it back lower', async () => {
    await good()
    await good(file({ endpoints: [] }))
    const open = { ...LIST, access: 'OPEN', permissions: [] }
    expect((await good(file({ endpoints: [open] }))).proposal).toBeDefined()
    expect(await people.world.rows('select access from endpoint')).toEqual([])
  })

  test('nor by going back to a version in which it was looser', async () => {
    await good(file({ endpoints: [{ ...LIST, access: 'OPEN', permissions: [] }] }))
    await good()
    const back = await send(
      'POST',
      '/catalog/services/accounts/rollback',
      { version: 2 },
      {
        headers: own('accounts'),
      },
    )
    expect(back.body).toMatchObject({ published: false })
    expect(back.body.proposal).toBeDefined()
  })
})

test('versions are kept, and an earlier one can be published again', async () => {
  await good()
  await good(file({ permissions: [{ ...READ, title: 'Other' }, ROWS, BILLING] }))
  const back = await send(
    'POST',
    '/catalog/services/accounts/rollback',
    { version: 2 },
    {
      headers: own('accounts'),
    },
  )
  expect(back.body).toMatchObject({ version: 4, published: true })
  expect(await entry('accounts:read')).toMatchObject({ title: READ.title })
  const versions = await people.call('bo', 'GET', '/catalog/services/accounts/versions')
  expect((versions.body.items as Json[]).map((v) => `${v.version} ${v.how}`)).toEqual([
    '4 rolled_back',
    '3 published',
    '2 published',
    '1 published',
  ])
  const two = await people.call('bo', 'GET', '/catalog/services/accounts/versions/2')
  expect((two.body.slice as Json).permissions).toHaveLength(3)
  const none = await send(
    'POST',
    '/catalog/services/accounts/rollback',
    { version: 1 },
    {
      headers: own('accounts'),
    },
  )
  expect(none.status).toBe(404)
  const services = await people.call('bo', 'GET', '/catalog/services')
  expect((services.body.items as Json[])[0]).toMatchObject({ id: 'accounts', version: 4 })
})

test('an admin of the operator makes a service and its client, and changes its secret', async () => {
  await people.world.rows(`update app_user set staff_roles = '{org_admin}' where id = 'usr_bo'`)
  const admin = { ...people.world.asUser('bo'), staffRoles: ['org_admin'] }
  const asAdmin = await createPeople({ verifyUser: async () => ({ ok: true, value: admin }) })
  try {
    const call = (method: string, path: string, body: unknown) =>
      asAdmin.call('bo', method, path, { body })
    const made = await call('POST', '/admin/services', { id: 'tickets', title: 'Tickets' })
    expect([made.status, made.body.id]).toEqual([201, 'tickets'])
    const { client_id: id, client_secret: secret } = made.body
    const ticket = { ...READ, id: 'tickets:read', title: 'Tickets' }
    const publish = (password: unknown) =>
      asAdmin.call(null, 'PUT', '/catalog/services/tickets', {
        tenant: 'studio',
        body: { permissions: [ticket] },
        headers: basic(String(id), String(password)),
      })
    expect((await publish(secret)).status).toBe(201)
    const again = await call('POST', '/admin/services', { id: 'tickets', title: 'Tickets' })
    expect(again.status).toBe(409)
    const changed = await call('PATCH', '/admin/services/tickets', { rotate_secret: true })
    expect((await publish(secret)).status).toBe(401)
    expect((await publish(changed.body.client_secret)).status).toBe(200)
    await call('PATCH', '/admin/services/tickets', { status: 'disabled' })
    expect((await publish(changed.body.client_secret)).status).toBe(401)
    const text = JSON.stringify(await asAdmin.world.rows('select data from activity'))
    expect(text).not.toContain(String(secret))
    expect(text).not.toContain(String(changed.body.client_secret))
  } finally {
    await asAdmin.world.close()
  }
})

/** Who may do what in the operator's tenant: every staff role against every route of people. */
describe('the operator’s routes, role by role', () => {
  const READ_BY = ['org_admin', 'auditor', 'builder', 'reviewer']
  const ROUTES: [string, string, string[], object?][] = [
    ['GET', '/catalog/services', READ_BY],
    ['GET', '/catalog/services/accounts/versions', READ_BY],
    ['GET', '/catalog/services/accounts/versions/1', READ_BY],
    ['GET', '/catalog/proposals', READ_BY],
    ['GET', '/catalog/proposals/prp_x', READ_BY],
    ['POST', '/catalog/proposals/prp_x/review', ['reviewer'], { verdict: 'approve' }],
    ['GET', '/admin/services', ['org_admin', 'auditor']],
    ['POST', '/admin/services', ['org_admin'], { id: 'mail', title: 'Mail' }],
    ['PATCH', '/admin/services/none', ['org_admin'], { title: 'None' }],
  ]
  test.each(ROUTES)('%s %s', async (method, path, roles, body) => {
    let value = people.world.asUser('bo')
    const as = await createPeople({ verifyUser: async () => ({ ok: true, value }) })
    for (const role of [...READ_BY, 'none']) {
      const staffRoles = role === 'none' ? [] : [role]
      for (const tenant of ['studio', 'acme'] as const) {
        const login = tenant === 'studio' ? 'bo' : 'adam'
        value = { ...people.world.asUser(login), staffRoles }
        const { status } = await as.call(login, method, path, body === undefined ? {} : { body })
        const allowed = roles.includes(role)
        if (!allowed) expect([role, tenant, status]).toEqual([role, tenant, 403])
        else if (tenant === 'acme') expect([role, tenant, status]).toEqual([role, tenant, 404])
        else expect([role, status === 401 || status === 403]).toEqual([role, false])
      }
    }
    await as.world.close()
  })
})
