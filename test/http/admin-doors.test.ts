import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import * as catalogContract from '../../schema/catalog.ts'
import { freeze } from '../../schema/freezes.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

/** Who may do what: one row a route. Bodies are good ones, so that only the role can be what refuses. */
const ROUTES: [string, string, unknown?][] = [
  ['GET', '/admin/users'],
  ['GET', '/admin/users/usr_maya'],
  ['GET', '/admin/users/usr_maya/access'],
  ['GET', '/admin/users/usr_maya/permissions'],
  ['GET', '/admin/groups'],
  ['GET', '/admin/roles'],
  ['GET', '/admin/roles/rol_manager_acme'],
  ['GET', '/admin/assignments'],
  ['GET', '/admin/restrictions'],
  ['GET', '/admin/agents'],
  ['GET', '/admin/agents/agt_briefs'],
  ['GET', '/admin/resource-servers'],
  ['GET', '/admin/enforcement-points'],
  ['GET', '/admin/identity-providers'],
  ['GET', '/admin/tool-servers'],
  ['GET', '/admin/proxies'],
  ['GET', '/admin/service-accounts'],
  ['GET', '/freezes'],
  ['GET', '/activity/verify'],
  ['POST', '/admin/users', { login: 'n', name: 'N', subject: 'n' }],
  ['PATCH', '/admin/users/usr_omar', { name: 'O' }],
  ['POST', '/admin/users/usr_omar/permissions', { permission: 'accounts:read' }],
  ['DELETE', '/admin/users/usr_maya/permissions/prm_q3'],
  ['POST', '/admin/groups', { name: 'G' }],
  ['PATCH', '/admin/groups/grp_x', { name: 'G' }],
  ['POST', '/admin/roles', { name: 'R', permissions: [] }],
  ['PATCH', '/admin/roles/rol_manager_acme', { name: 'R' }],
  ['POST', '/admin/assignments', { role_id: 'rol_manager_acme', user_id: 'usr_adam' }],
  ['DELETE', '/admin/assignments/asg_maya'],
  ['POST', '/admin/restrictions', { user_id: 'usr_maya', entity: 'accounts', masks: ['phone'] }],
  ['PATCH', '/admin/restrictions/rst_x', { masks: [] }],
  ['DELETE', '/admin/restrictions/rst_x'],
  ['POST', '/admin/agents', { name: 'A', templates: [], app_clients: [] }],
  ['PATCH', '/admin/agents/agt_briefs', { status: 'disabled' }],
  ['POST', '/admin/resource-servers', { resource: 'https://a.example', name: 'A', services: [] }],
  ['PATCH', '/admin/resource-servers/rsv_x', { name: 'A' }],
  ['DELETE', '/admin/resource-servers/rsv_x'],
  ['POST', '/admin/enforcement-points', { name: 'P', services: [] }],
  ['PATCH', '/admin/enforcement-points/epc_x', { status: 'disabled' }],
  ['DELETE', '/admin/enforcement-points/epc_x'],
  [
    'POST',
    '/admin/identity-providers',
    { issuer: 'https://i.example', audience: 'a', first_party_clients: [] },
  ],
  ['PATCH', '/admin/identity-providers/idp_acme', { creates_users: true }],
  ['POST', '/admin/tool-servers', { name: 'mail', title: 'Mail', url: 'https://mail.example/mcp' }],
  ['PATCH', '/admin/tool-servers/tsv_x', { title: 'M' }],
  ['DELETE', '/admin/tool-servers/tsv_x'],
  ['POST', '/admin/proxies', { name: 'P', family: 'nginx' }],
  ['PATCH', '/admin/proxies/prx_x', { status: 'disabled' }],
  ['POST', '/admin/proxies/prx_x/mounts', { prefix: '/mail', service: 'mail' }],
  ['DELETE', '/admin/proxies/prx_x/mounts/mnt_x'],
  ['POST', '/admin/service-accounts', { name: 'S' }],
  ['PATCH', '/admin/service-accounts/svc_x', { status: 'disabled' }],
  ['POST', '/admin/service-accounts/svc_x/permissions', { permission: 'accounts:read' }],
  ['DELETE', '/admin/service-accounts/svc_x/permissions/svp_x'],
  ['POST', '/freezes', { scope: 'tenant', id: 'acme' }],
  ['DELETE', '/freezes/frz_x'],
  ['POST', '/enablements/renewal-briefs/adopt', { version: 2 }],
  ['GET', '/enablements'],
  ['GET', '/enablements/renewal-briefs'],
  ['PUT', '/enablements/renewal-briefs', { status: 'off' }],
  ['GET', '/enablements/renewal-briefs/preview'],
  ['POST', '/enablements/renewal-briefs/narrow', { remove: [{ permission: 'accounts:read' }] }],
  ['GET', '/reviews'],
  ['GET', '/consent-health'],
  ['DELETE', '/reviews/rules/rul_x'],
]

describe('the doors of administration', () => {
  let admin: Admin
  beforeAll(async () => {
    admin = await createAdmin()
  })
  afterAll(async () => {
    expect(admin.bugs).toEqual([])
    await admin.world.close()
  })

  test.each(ROUTES)('%s %s is closed to people without the role', async (method, path, body) => {
    const before = await admin.state()
    const readable = method === 'GET'
    for (const login of readable ? (['maya'] as const) : (['maya', 'cleo'] as const)) {
      const answer = await admin.call(login, method, path, body === undefined ? {} : { body })
      expectProblem(answer, 403, 'forbidden')
    }
    // An admin of another tenant is nobody here.
    const stranger = await admin.call('gina', method, path, {
      tenant: 'acme',
      ...(body === undefined ? {} : { body }),
    })
    expectProblem(stranger, 401, 'unauthenticated')
    expectProblem(
      await admin.call(null, method, path, body === undefined ? {} : { body }),
      401,
      'unauthenticated',
    )
    expect(await admin.state()).toBe(before)
  })

  test.each(ROUTES.filter(([method]) => method === 'GET'))(
    '%s %s is open to an auditor',
    async (method, path) => {
      expect((await admin.call('cleo', method, path)).status).toBe(200)
    },
  )

  test.each(ROUTES.filter(([method]) => method === 'GET'))(
    '%s %s refuses a parameter it does not know',
    async (method, path) => {
      const answer = await admin.call('adam', method, `${path}?nonsense=1`)
      expectProblem(answer, 400, 'request_malformed', 'nonsense')
    },
  )
})

describe('freezes (USER-ASKS 42)', () => {
  let admin: Admin
  beforeEach(async () => {
    admin = await createAdmin()
  })
  afterEach(async () => {
    expect(admin.bugs).toEqual([])
    await admin.world.close()
  })

  const SCOPES: [string, string, string][] = [
    ['tenant', 'acme', 'ten_acme'],
    ['tenant', 'ten_acme', 'ten_acme'],
    ['template', 'renewal-briefs', 'tpl_briefs'],
    ['template', 'tpl_briefs', 'tpl_briefs'],
    ['agent', 'agt_briefs', 'agt_briefs'],
    ['user', 'usr_maya', 'usr_maya'],
  ]
  test.each(SCOPES)(
    'of a %s named %s stops at once, ends nothing, and can be taken back',
    async (scope, id, target) => {
      const session = await admin.world.start('maya', { mode: 'bypass' })
      await admin.world.ask(session, [{ permission: 'accounts:read' }])
      const frozen = await admin.post('/freezes', { scope, id })
      expect(frozen.status).toBe(201)
      expect(freeze.safeParse(frozen.body).error).toBeUndefined()
      expect(frozen.body).toMatchObject({ scope, target_id: target, created_by: 'usr_adam' })
      expect(items(await admin.get('/freezes', 'cleo'))).toEqual([frozen.body])
      await expect(
        admin.world.ask(session, [{ permission: 'accounts.rows:my_region' }]),
      ).rejects.toThrow('frozen')
      await expect(admin.world.start('maya')).rejects.toThrow('frozen')
      expect(
        await admin.world.rows(
          `select s.status, g.permission_id from session s join access_grant g on g.session_id = s.id
         where s.id = $1`,
          [session],
        ),
      ).toEqual([{ status: 'active', permission_id: 'accounts:read' }])
      expectProblem(await admin.post('/freezes', { scope, id: target }), 409, 'already_exists')

      expect((await admin.remove(`/freezes/${frozen.body.id}`)).status).toBe(204)
      expectProblem(await admin.remove(`/freezes/${frozen.body.id}`), 404, 'not_found')
      const asked = await admin.world.ask(session, [{ permission: 'accounts.rows:my_region' }])
      expect(asked.value.items[0]?.verdict.outcome).toBe('granted')
      const [created, ended] = [
        await admin.records('freeze.created'),
        await admin.records('freeze.ended'),
      ]
      for (const list of [created, ended])
        expect(list).toMatchObject([
          { data: { freeze_id: frozen.body.id, scope, target_id: target, by: 'usr_adam' } },
        ])
    },
  )

  test.each([
    ['I17 another tenant', { scope: 'tenant', id: 'globex' }, 422, 'unprocessable', 'id'],
    ['I17 another tenant’s person', { scope: 'user', id: 'usr_gus' }, 422, 'unprocessable', 'id'],
    [
      'I17 another tenant’s agent',
      { scope: 'agent', id: 'agt_globex' },
      422,
      'unprocessable',
      'id',
    ],
    [
      'I17 another tenant’s private template',
      { scope: 'template', id: 'studio-secret' },
      422,
      'unprocessable',
      'id',
    ],
    ['a person as an agent', { scope: 'agent', id: 'usr_maya' }, 422, 'unprocessable', 'id'],
    ['an unknown scope', { scope: 'session', id: 'ses_x' }, 400, 'request_malformed', 'scope'],
    ['no id', { scope: 'tenant' }, 400, 'request_malformed', 'id'],
    ['an id of the wrong type', { scope: 'user', id: 1 }, 400, 'request_malformed', 'id'],
    ['an id too long', { scope: 'user', id: 'x'.repeat(65) }, 400, 'request_malformed', 'id'],
    ['a NUL', { scope: 'user', id: 'usr\u0000' }, 400, 'request_malformed', 'id'],
    [
      'an unknown field',
      { scope: 'user', id: 'usr_maya', until: 1 },
      400,
      'request_malformed',
      'until',
    ],
  ] as [string, object, number, string, string][])(
    'of %s is refused, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/freezes', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('I17 another tenant’s freeze cannot be taken back', async () => {
    const theirs = await admin.post('/freezes', { scope: 'user', id: 'usr_gus' }, 'gina')
    const before = await admin.state()
    expectProblem(await admin.remove(`/freezes/${theirs.body.id}`), 404, 'not_found')
    expect(items(await admin.get('/freezes'))).toEqual([])
    expect(await admin.state()).toBe(before)
  })
})

describe('the catalog', () => {
  let admin: Admin
  beforeAll(async () => {
    admin = await createAdmin()
    await admin.world.pg.query(
      `update permission set retired = true where id = 'email-templates:write'`,
    )
  })
  afterAll(async () => {
    expect(admin.bugs).toEqual([])
    await admin.world.close()
  })
  const ids = async (query: string) =>
    items(await admin.get(`/catalog${query}`, 'maya')).map((p) => p.id)

  test('lists all that is not retired, by id, in pages, never-delegable ones too', async () => {
    const all = await admin.get('/catalog', 'maya')
    expect(items(all).map((p) => p.id)).toEqual([
      'accounts.rows:my_region',
      'accounts:read',
      'billing:admin',
      'contracts.fields:pricing',
      'dashboard:view',
      'email:send',
    ])
    for (const one of items(all))
      expect(catalogContract.permission.safeParse(one).error).toBeUndefined()
    const first = await admin.get('/catalog?limit=4', 'maya')
    const second = await admin.get(`/catalog?limit=4&cursor=${first.body.next}`, 'maya')
    expect([...items(first), ...items(second)]).toEqual(items(all))
    expect(second.body.next).toBeUndefined()
    expect(await ids('?kind=asset')).toEqual(['dashboard:view'])
  })

  test('finds by any word of a task, stemmed, best first, and says which words', async () => {
    const found = items(
      await admin.get(
        '/catalog?q=Prices%20customers%20paid,%20pricing,%20the%20dashboards',
        'maya',
      ),
    )
    expect(found.map((p) => [p.id, p.matched])).toEqual([
      ['contracts.fields:pricing', ['Prices', 'customers', 'pricing']],
      ['dashboard:view', ['dashboards']],
    ])
    expect(await ids('?q=accounts&kind=data')).toEqual(['accounts.rows:my_region'])
    expect(await ids('?q=accounts&limit=1')).toHaveLength(1)
  })

  test.each(['?q=the%20of', '?q=zzz', '?q=%27%20%26%20%7C%20%21%28', '?q=templates%20retire'])(
    'finds nothing for %s',
    async (query) => {
      expect(await ids(query)).toEqual([])
    },
  )

  test('answers one permission, or 404: retired, unknown, or no id at all', async () => {
    expect((await admin.get('/catalog/dashboard:view', 'maya')).body).toMatchObject({
      title: 'Dashboard · View',
      unlocks: 'Opens one dashboard.',
      enforced_at: 'asset',
      resource_hint: 'dashboard/<name>',
    })
    expect((await admin.get('/catalog/accounts:read', 'maya')).body).not.toHaveProperty(
      'resource_hint',
    )
    for (const id of ['email-templates:write', 'no:such', 'x'.repeat(200), '%00', '%F0%9F%92%A9'])
      expectProblem(await admin.get(`/catalog/${id}`, 'maya'), 404, 'not_found')
  })

  test.each([
    ['?q=', 'q'],
    [`?q=${'x'.repeat(501)}`, 'q'],
    ['?q=a%00', 'q'],
    ['?q=a&q=b', 'q'],
    ['?kind=human', 'kind'],
    ['?limit=0', 'limit'],
    ['?cursor=nonsense', 'cursor'],
    ['?sort=id', 'sort'],
  ])('refuses %s', async (query, path) => {
    expectProblem(await admin.get(`/catalog${query}`, 'maya'), 400, 'request_malformed', path)
  })
})
