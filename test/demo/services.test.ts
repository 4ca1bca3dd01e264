import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { seedToolServers } from '../../src/demo/tool-servers.ts'
import { openVault } from '../../src/vault.ts'
import { connectMcp } from '../support/live-calls.ts'
import { ACCESS_TOKEN, type LiveServer, serveLend, TOKEN_EXCHANGE } from '../support/live-server.ts'

/**
 * The demo's services against the real server over HTTP: each refusal names what to ask for, each
 * call is recorded.
 */
let lend: LiveServer
beforeAll(async () => {
  lend = await serveLend()
})
afterEach(async () => {
  await lend.endSessions('maya')
  await lend.endSessions('omar')
})
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

type Service = 'accounts' | 'dashboards' | 'contracts' | 'mail'
type Called = { status: number; headers: Headers; body: Record<string, unknown> }

async function call(
  service: Service,
  path: string,
  token: string | null,
  post?: object,
): Promise<Called> {
  const answer = await fetch(`${lend.resource(service)}${path}`, {
    ...(post === undefined ? {} : { method: 'POST', body: JSON.stringify(post) }),
    headers: {
      'content-type': 'application/json',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
  })
  const body = (await answer.json()) as Record<string, unknown>
  return { status: answer.status, headers: answer.headers, body }
}

async function tokenFor(control: string, service: Service): Promise<string> {
  const form = {
    grant_type: TOKEN_EXCHANGE,
    subject_token: control,
    subject_token_type: ACCESS_TOKEN,
    resource: lend.resource(service),
  }
  return (await lend.token(form, await lend.agent())).body.access_token
}

/** A session of somebody's that has been lent these, and its tokens for each service. */
async function borrowed(login: string, items: Parameters<LiveServer['lend']>[2]) {
  const started = await lend.start(login)
  if (items.length > 0) await lend.lend(login, started.access_token, items)
  const { access_token } = await lend.reissue(started.refresh_token)
  return {
    id: started.session_id,
    call: async (service: Service, path: string, post?: object) =>
      call(service, path, await tokenFor(access_token, service), post),
  }
}

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }

describe('without a good token', () => {
  test.each<[Service, string]>([
    ['accounts', '/accounts'],
    ['dashboards', '/dashboards/q3-pipeline'],
    ['contracts', '/contracts/ctr-emea-1/pricing'],
  ])('%s challenges', async (service, path) => {
    const none = await call(service, path, null)
    expect(none).toMatchObject({ status: 401, body: { reason: 'token_missing' } })
    expect(none.headers.get('www-authenticate')).toBe('Bearer')
    const others = [
      'x.y.z',
      await lend.userToken('maya', 'app'),
      (await lend.start('maya')).access_token,
    ]
    for (const token of others) {
      const bad = await call(service, path, token)
      expect(bad).toMatchObject({ status: 401, body: { reason: 'token_invalid' } })
      expect(bad.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
    }
  })
})

describe('a session that holds nothing is told what to ask for', () => {
  test.each<[Service, string, object, object | undefined]>([
    ['accounts', '/accounts', READ, undefined],
    [
      'dashboards',
      '/dashboards/q3-pipeline',
      { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
      undefined,
    ],
    [
      'contracts',
      '/contracts/ctr-emea-1/pricing',
      { permission: 'contracts.fields:pricing' },
      undefined,
    ],
    [
      'mail',
      '/templates',
      { permission: 'email-templates:write' },
      { name: 'n', subject: 's', body: 'b' },
    ],
  ])('%s %s', async (service, path, item, post) => {
    const session = await borrowed('maya', [])
    expect(await session.call(service, path, post)).toMatchObject({
      status: 403,
      body: {
        error: 'access_needed',
        reason: 'not_granted',
        ask: { tool: 'iam.request_access', items: [item] },
      },
    })
  })
})

test('what the user does not have is not held out as something to ask for', async () => {
  const session = await borrowed('maya', [])
  const called = await session.call('dashboards', '/dashboards/there-is-none')
  expect(called).toMatchObject({ status: 403, body: { reason: 'not_granted' } })
  expect(called.body).not.toHaveProperty('ask')
})

type Account = { id: string; region: string; phone: null; renewal_in_days: number }
const itemsOf = (called: Called) => called.body.items as Account[]

describe('accounts', () => {
  test('calling is one thing, rows are another', async () => {
    const session = await borrowed('maya', [READ])
    const none = await session.call('accounts', '/accounts')
    expect(none).toMatchObject({ status: 200, body: { items: [], ask: ROWS } })
  })

  test.each([
    ['maya', 'emea', 10],
    ['omar', 'amer', 9],
  ])('%s sees %s, and no phone', async (login, region, count) => {
    const session = await borrowed(login, [READ, ROWS])
    const items = itemsOf(await session.call('accounts', '/accounts'))
    expect(items).toHaveLength(count)
    for (const item of items) expect(item).toMatchObject({ region, phone: null })
  })

  test('a narrowed grant shows less', async () => {
    const narrow = { renewal_in_days: { $lte: 60 } }
    const session = await borrowed('maya', [READ, { ...ROWS, narrow }])
    const items = itemsOf(await session.call('accounts', '/accounts'))
    expect(items.map((item) => item.renewal_in_days)).toEqual([12, 27, 41, 58])
  })

  test('two grants show what either shows, each row once', async () => {
    const session = await borrowed('maya', [
      READ,
      { ...ROWS, narrow: { renewal_in_days: { $lte: 30 } } },
      { ...ROWS, narrow: { renewal_in_days: { $in: [27, 41] } } },
    ])
    const items = itemsOf(await session.call('accounts', '/accounts'))
    expect(items.map((item) => item.renewal_in_days)).toEqual([12, 27, 41])
  })

  test('a narrow that does not fit the data shows nothing, and says so', async () => {
    const session = await borrowed('maya', [READ, { ...ROWS, narrow: { name: { $gt: 5 } } }])
    expect(await session.call('accounts', '/accounts')).toMatchObject({
      status: 422,
      body: { error: 'narrow_unfit' },
    })
  })

  test('rows that are blocked and fields that are masked are not there, whatever is held', async () => {
    const session = await borrowed('maya', [READ, ROWS])
    await lend.rows(
      `insert into restriction (id, tenant_id, user_id, entity, blocks, masks, created_at)
       values ('rst_demo', $1, $2, 'account', '{"renewal_in_days": {"$gt": 60}}', '{arr}', now())`,
      [await lend.tenantId(), await lend.userId('maya')],
    )
    const called = await session.call('accounts', '/accounts')
    await lend.rows(`delete from restriction where id = 'rst_demo'`)
    expect(called.body.masked).toEqual(['arr', 'phone'])
    expect(itemsOf(called).map((item) => item.renewal_in_days)).toEqual([12, 27, 41, 58])
    for (const item of itemsOf(called)) expect(item).toMatchObject({ arr: null, phone: null })
  })

  test('each call is on record, and counts the use of its grant', async () => {
    const session = await borrowed('maya', [READ])
    await session.call('accounts', '/accounts')
    const recorded = () =>
      lend.rows(
        `select type, data ->> 'permission' as permission, data ->> 'target' as target
         from activity where session_id = $1 and type like 'call.%' order by seq`,
        [session.id],
      )
    await expect.poll(recorded, { timeout: 5000 }).toEqual([
      { type: 'call.allowed', permission: 'accounts:read', target: 'GET /accounts' },
      { type: 'call.denied', permission: 'accounts.rows:my_region', target: 'GET /accounts' },
    ])
    const uses = await lend.rows('select uses from access_grant where session_id = $1', [
      session.id,
    ])
    expect(uses).toEqual([{ uses: 1 }])
  })
})

test('a dashboard that is held opens, and no other', async () => {
  const item = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
  const session = await borrowed('maya', [item])
  const open = await session.call('dashboards', '/dashboards/q3-pipeline')
  expect(open).toMatchObject({ status: 200, body: { title: 'Q3 pipeline' } })
  expect((await session.call('dashboards', '/dashboards/churn')).status).toBe(403)
  expect((await session.call('dashboards', '/dashboards/..%2Fq3-pipeline')).status).toBe(404)
})

test('contracts refuses by itself what was released, within seconds, and shows what is lent anew with the next token', async () => {
  const pricing = [{ permission: 'contracts.fields:pricing' }]
  const started = await lend.start('maya')
  const path = '/contracts/ctr-emea-1/pricing'
  const bare = await tokenFor(started.access_token, 'contracts')
  expect(await call('contracts', path, bare)).toMatchObject({
    status: 403,
    body: { ask: { items: pricing } },
  })
  await lend.lend('maya', started.access_token, pricing)
  const { access_token: control } = await lend.reissue(started.refresh_token)
  const held = await tokenFor(control, 'contracts')
  expect((await call('contracts', path, held)).status).toBe(200)
  const mcp = await lend.mcp(control)
  await mcp.call('iam.release_access', { items: pricing })
  await expect
    .poll(async () => (await call('contracts', path, held)).status, { timeout: 5000 })
    .toBe(401)
  // What the version took with it is not shown by a token from before either.
  expect((await call('contracts', path, bare)).status).toBe(401)
})

test('pricing is shown for contracts of the person’s own region only', async () => {
  const session = await borrowed('maya', [{ permission: 'contracts.fields:pricing' }])
  const own = await session.call('contracts', '/contracts/ctr-emea-1/pricing')
  expect(own).toMatchObject({ status: 200, body: { account_id: 'acc-emea-1' } })
  expect((await session.call('contracts', '/contracts/ctr-amer-1/pricing')).status).toBe(404)
})

test('mail is sent through the tool gateway, to the domain that was granted and nowhere else', async () => {
  const started = await lend.start('maya')
  const item = { permission: 'email:send', resource: 'domain/customer.example' }
  await lend.lend('maya', started.access_token, [item])
  const mcp = await connectMcp(`${lend.issuer()}/tools/mail/mcp`, started.access_token)
  const send = (to: unknown) => mcp.raw('send_email', { to, subject: 's', body: 'b' })
  expect(await send('Jo <jo@customer.example>')).toMatchObject({
    structuredContent: { sent: false, recorded: true, to: ['Jo <jo@customer.example>'] },
  })
  for (const to of ['jo@evil.example', ['jo@customer.example', 'jo@evil.example'], 'jo', ''])
    expect((await send(to)).isError).toBe(true)
  const more = { to: 'jo@customer.example', subject: 's', body: 'b', bcc: 'jo@evil.example' }
  expect(await mcp.raw('send_email', more)).toMatchObject({ isError: true })
  await mcp.close()
})

test('the mail server takes nobody but Lend, with the credential of a customer', async () => {
  const { access_token } = await lend.start('maya')
  for (const authorization of ['', 'Bearer x', `Bearer ${access_token}`]) {
    const answer = await fetch(`${lend.publicUrl}/demo/mail/mcp`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(answer.status).toBe(401)
  }
})

describe('the mail server’s place in Lend', () => {
  const place = () =>
    lend.rows<{ tenant_id: string; url: string; sealed: boolean }>(
      `select tenant_id, url, sealed_credential is not null as sealed from tool_server order by 1`,
    )

  test('is registered for each customer, with a sealed credential', async () => {
    expect((await place()).map((row) => [row.url, row.sealed])).toEqual([
      [`${lend.publicUrl}/demo/mail/mcp`, true],
      [`${lend.publicUrl}/demo/mail/mcp`, true],
    ])
  })

  test('follows another address and another key at the next start, and stays removed', async () => {
    const vault = openVault({ secretKeys: null, dataDir: null, databaseUrl: null })
    const moved = { ...lend.ctx, publicUrl: 'http://localhost:1', vault }
    await seedToolServers(moved, lend.secrets)
    expect((await place()).map((row) => row.url)).toEqual([
      'http://localhost:1/demo/mail/mcp',
      'http://localhost:1/demo/mail/mcp',
    ])
    await lend.rows(`delete from tool_server where tenant_id = $1`, [await lend.tenantId('globex')])
    await seedToolServers(lend.ctx, lend.secrets)
    expect((await place()).map((row) => row.url)).toEqual([`${lend.publicUrl}/demo/mail/mcp`])
    await lend.rows(`update tool_server set url = 'https://mail.acme.example/mcp'`)
    await seedToolServers(lend.ctx, lend.secrets)
    expect((await place()).map((row) => row.url)).toEqual(['https://mail.acme.example/mcp'])
  })
})
