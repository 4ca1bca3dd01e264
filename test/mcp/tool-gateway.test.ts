import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { connectMcp } from '../support/live-calls.ts'
import { type LiveServer, serveLend, type ToolAnswer } from '../support/live-server.ts'
import { startUpstream, type Upstream } from './support/upstream.ts'

/** The tool gateway over HTTP: the official client in front, a real MCP server behind (SPEC section 9). */
let lend: LiveServer
let upstream: Upstream
const SECRET = 'upstream-s3cret'

beforeAll(async () => {
  upstream = await startUpstream()
  lend = await serveLend()
  await register('adam', 'acme')
})
afterEach(async () => {
  upstream.reset()
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(async () => {
  await lend.close()
  await upstream.close()
})

type Listed = { items: { id: string; name: string }[] }
async function register(admin: string, tenant: string, url = upstream.url) {
  const token = await lend.userToken(admin)
  const there = await lend.api<Listed>(token, 'GET', '/admin/tool-servers', undefined, { tenant })
  for (const one of there.body.items.filter(({ name }) => name === 'mail'))
    await lend.api(token, 'DELETE', `/admin/tool-servers/${one.id}`, undefined, { tenant })
  const body = {
    name: 'mail',
    title: 'Mail',
    url,
    private_network: true,
    credential: `Bearer ${SECRET}`,
  }
  const made = await lend.api(token, 'POST', '/admin/tool-servers', body, { tenant })
  expect(made.status, made.text).toBe(201)
}

const gateway = (tenant = 'acme', server = 'mail') =>
  `${lend.publicUrl}/t/${tenant}/tools/${server}/mcp`
const SEND = (domain: string) => ({ permission: 'email:send', resource: `domain/${domain}` })
const mail = (to: unknown) => ({ to, subject: 'Renewal', body: 'Hello' })
const said = (answer: ToolAnswer) => JSON.parse(answer.content[0]?.text ?? 'null')

/** A session that has been lent sending to these domains. */
async function session(...domains: string[]) {
  const started = await lend.start('maya')
  if (domains.length > 0) await lend.lend('maya', started.access_token, domains.map(SEND))
  const mcp = await connectMcp(gateway(), started.access_token)
  return {
    ...started,
    mcp,
    list: async () => (await mcp.client.listTools()).tools.map((tool) => tool.name),
    send: (to: unknown) => mcp.raw('send_email', mail(to)),
    records: () =>
      lend.rows<{ type: string; data: Record<string, unknown> }>(
        `select type, data from activity where session_id = $1 and type like 'call.%'
           and data ->> 'target' like 'tools/call%' order by seq`,
        [started.session_id],
      ),
  }
}

describe('what a session holds', () => {
  test('nothing: it sees nothing, and the server is not even asked', async () => {
    const one = await session()
    expect(await one.list()).toEqual([])
    const refused = await one.send('jo@customer.example')
    expect(refused.isError).toBe(true)
    expect(said(refused)).toMatchObject({
      code: 'access_needed',
      reason: 'not_granted',
      ask: { tool: 'iam.request_access', items: [SEND('customer.example')] },
    })
    expect(upstream.seen).toEqual([])
  })

  test('the item of the refusal, passed on as it is, makes the same call go through', async () => {
    const one = await session()
    const refused = said(await one.send(['Jo <jo@customer.example>', 'al@other.example']))
    await lend.lend('maya', one.access_token, refused.ask.items)
    expect(await one.list()).toEqual(['send_email'])
    const sent = await one.send(['Jo <jo@customer.example>', 'al@other.example'])
    expect(sent).toMatchObject({ content: [{ type: 'text', text: 'send_email done' }] })
    expect(upstream.calls).toEqual([
      { name: 'send_email', args: mail(['Jo <jo@customer.example>', 'al@other.example']) },
    ])
  })

  test('less than a call needs: the refusal asks for the rest alone', async () => {
    const one = await session('customer.example')
    const refused = said(await one.send('jo@customer.example, eve@evil.example'))
    expect(refused.ask.items).toEqual([SEND('evil.example')])
    expect(upstream.calls).toEqual([])
  })

  test('and tools that no permission names are nobody’s', async () => {
    const one = await session('customer.example')
    await expect(one.mcp.raw('delete_all', {})).rejects.toThrow('Unknown tool')
    await expect(one.mcp.raw('nothing', {})).rejects.toThrow('Unknown tool')
    expect(upstream.calls).toEqual([])
    expect((await one.records()).map(({ data }) => data.reason)).toEqual([
      'unknown_tool',
      'unknown_tool',
    ])
  })

  test('ends with its user’s own access, at once, whatever the token says', async () => {
    const one = await session('customer.example')
    expect((await one.send('jo@customer.example')).isError).toBeUndefined()
    await lend.rows(`update role_permission set resource = 'domain/other.example'
      where permission_id = 'email:send'`)
    try {
      expect(await one.list()).toEqual([])
      expect(said(await one.send('jo@customer.example')).code).toBe('access_needed')
    } finally {
      await lend.rows(`update role_permission set resource = 'domain/*'
        where permission_id = 'email:send'`)
    }
  })

  test('while frozen, nothing is listed or called', async () => {
    const one = await session('customer.example')
    const thaw = await lend.freeze('user', await lend.userId('maya'))
    try {
      expect(await one.list()).toEqual([])
      expect(said(await one.send('jo@customer.example')).code).toBe('frozen')
    } finally {
      await thaw()
    }
    expect(upstream.calls).toEqual([])
    expect((await one.send('jo@customer.example')).isError).toBeUndefined()
  })

  test('and after the session’s end the token opens nothing', async () => {
    const one = await session('customer.example')
    await lend.endSessions('maya')
    await expect(one.send('jo@customer.example')).rejects.toThrow()
    expect(upstream.calls).toEqual([])
  })
})

/** Every way to write a destination so that something else is read: none of them reaches the server. */
const BYPASSES: readonly (readonly [string, object])[] = [
  ['another domain', mail('eve@evil.example')],
  ['a subdomain', mail('eve@sub.customer.example')],
  ['a longer domain', mail('eve@customer.example.evil.example')],
  ['a second recipient', mail('jo@customer.example, eve@evil.example')],
  ['a second entry', mail(['jo@customer.example', 'eve@evil.example'])],
  ['an address as a name', mail('"jo@customer.example" <eve@evil.example>')],
  ['a name before an address', mail('jo@customer.example <eve@evil.example>')],
  ['a comment', mail('jo@customer.example (eve@evil.example)')],
  ['a group', mail('Friends: jo@customer.example, eve@evil.example;')],
  ['a quoted local part', mail('"eve@evil.example, "@customer.example')],
  ['a source route', mail('<@evil.example:jo@customer.example>')],
  ['a percent route', mail('eve%evil.example@customer.example')],
  ['a bang path', mail('evil.example!eve@customer.example')],
  ['a header more', mail('jo@customer.example\nBcc: eve@evil.example')],
  ['a look-alike domain', mail('eve@custоmer.example')],
  ['a full-width @', mail('eve＠evil.example')],
  ['a domain literal', mail('jo@[127.0.0.1]')],
  ['a pattern', mail('*')],
  ['a web address', mail('https://customer.example@evil.example/')],
  ['an object', mail({ address: 'eve@evil.example' })],
  ['a nested list', mail([['eve@evil.example']])],
  ['an empty list', mail([])],
  ['no destination', { subject: 's', body: 'b' }],
  ['null', mail(null)],
  ['a twin argument', { ...mail('jo@customer.example'), To: 'eve@evil.example' }],
]

describe('egress', () => {
  test.each(BYPASSES)('by %s is refused and recorded, and nothing is sent', async (_, args) => {
    const one = await session('customer.example')
    const refused = await one.mcp.raw('send_email', args)
    expect(refused.isError).toBe(true)
    expect(['access_needed', 'destination_unclear']).toContain(said(refused).code)
    expect(upstream.calls).toEqual([])
    expect((await one.records()).map(({ type }) => type)).toEqual(['call.denied'])
  })

  test('spelled in another way to a domain that is held goes through', async () => {
    const one = await session('customer.example', 'xn--bcher-kva.example')
    for (const to of ['Jo <jo@Customer.Example.>', 'jo@bücher.example', '(hi) jo@customer.example'])
      expect((await one.send(to)).isError, to).toBeUndefined()
  })
})

describe('the record', () => {
  test('names what was called, where to and by which grant, and only a digest of the arguments', async () => {
    const one = await session('customer.example')
    await one.send('jo@customer.example')
    await one.send('jo@evil.example')
    const [grant] = await lend.rows<{ id: string; uses: number }>(
      'select id, uses from access_grant where session_id = $1',
      [one.session_id],
    )
    expect(grant?.uses).toBe(1)
    const digest = expect.stringMatching(/^[A-Za-z0-9_-]{43}$/)
    const base = { target: 'tools/call mail/send_email', arguments_digest: digest }
    expect(await one.records()).toEqual([
      {
        type: 'call.allowed',
        data: {
          ...base,
          permission: 'email:send',
          resource: 'domain/customer.example',
          grant_ids: [grant?.id],
        },
      },
      {
        type: 'call.denied',
        data: {
          ...base,
          permission: 'email:send',
          resource: 'domain/evil.example',
          reason: 'not_granted',
        },
      },
    ])
    expect(JSON.stringify(await one.records())).not.toMatch(/Renewal|Hello|jo@/)
  })
})

describe('what reaches the server', () => {
  test('is its own credential and the call: nothing of the caller’s', async () => {
    const one = await session('customer.example')
    const mcp = await fetch(gateway(), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${one.access_token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
        cookie: 'caller-cookie=1',
        'x-caller': 'caller-header',
        'x-request-id': 'caller-request-1',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 'caller-id',
        method: 'tools/call',
        params: {
          name: 'send_email',
          arguments: mail('jo@customer.example'),
          _meta: { progressToken: 'caller-progress', 'caller.example/meta': 'caller-meta' },
        },
      }),
    })
    expect(await mcp.text()).toMatch(/send_email done.*"id":"caller-id"/)
    const everything = JSON.stringify(upstream.seen)
    expect(everything).not.toContain('caller')
    expect(everything).not.toContain(one.access_token)
    expect(everything).not.toContain(one.session_id)
    for (const { headers } of upstream.seen) expect(headers.authorization).toBe(`Bearer ${SECRET}`)
  })
})

describe('tokens', () => {
  test('of the server’s own audience open it, and neither MCP nor another server', async () => {
    const one = await session('customer.example')
    await lend.lend('maya', one.access_token, [
      { permission: 'email:send', resource: 'domain/a.example' },
    ])
    const own = await lend.reissue(one.refresh_token, { resource: gateway() })
    expect(own.authorization_details.map((d) => d.permission)).toEqual(['email:send', 'email:send'])
    const mcp = await connectMcp(gateway(), own.access_token)
    expect((await mcp.client.listTools()).tools.map(({ name }) => name)).toEqual(['send_email'])
    await mcp.close()
    await expect(connectMcp(lend.mcpUrl(), own.access_token)).rejects.toThrow()
    const nowhere = { grant_type: 'refresh_token', refresh_token: one.refresh_token }
    for (const resource of [gateway('acme', 'nothing'), gateway('globex'), `${gateway()}/`])
      expect(
        (await lend.token({ ...nowhere, resource }, await lend.agent())).body.error,
        resource,
      ).toBe('invalid_target')
  })

  test('for a resource server are refused', async () => {
    const one = await session('customer.example')
    const other = await lend.reissue(one.refresh_token, { resource: lend.resource('mail') })
    await expect(connectMcp(gateway(), other.access_token)).rejects.toThrow()
  })

  test('are asked for with the address of the metadata; a server that is not there is 404', async () => {
    const one = await session()
    const post = (url: string, headers: Record<string, string> = {}) =>
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: '{}',
      })
    for (const server of ['mail', 'nothing']) {
      const bare = await post(gateway('acme', server))
      expect(bare.status).toBe(401)
      const [, at = ''] =
        /resource_metadata="([^"]+)"/.exec(bare.headers.get('www-authenticate') ?? '') ?? []
      const metadata = await (await fetch(at)).json()
      expect(metadata).toMatchObject({
        resource: gateway('acme', server),
        authorization_servers: [lend.issuer()],
      })
    }
    const bearer = { authorization: `Bearer ${one.access_token}` }
    expect((await post(gateway('acme', 'nothing'), bearer)).status).toBe(404)
    expect((await fetch(gateway(), { headers: bearer })).status).toBe(405)
  })
})

test('another tenant’s session is shut out, and its own server is its own', async () => {
  const other = await startUpstream()
  try {
    await register('gus', 'globex', other.url)
    const gus = await lend.start('gus')
    await lend.lend('gus', gus.access_token, [SEND('customer.example')])
    await expect(connectMcp(gateway('acme'), gus.access_token)).rejects.toThrow()
    const mcp = await connectMcp(gateway('globex'), gus.access_token)
    await mcp.raw('send_email', mail('jo@customer.example'))
    await mcp.close()
    expect(other.calls).toHaveLength(1)
    expect(upstream.calls).toEqual([])
  } finally {
    await other.close()
  }
})

test('a client of the newest revision is served the same', async () => {
  const one = await session('customer.example')
  const client = new ModernClient(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  const headers = { authorization: `Bearer ${one.access_token}` }
  await client.connect(new ModernTransport(new URL(gateway()), { requestInit: { headers } }))
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['send_email'])
  const refused = await client.callTool({ name: 'send_email', arguments: mail('eve@evil.example') })
  expect(said(refused as ToolAnswer).ask.items).toEqual([SEND('evil.example')])
  const sent = await client.callTool({ name: 'send_email', arguments: mail('jo@customer.example') })
  expect(sent).toMatchObject({ content: [{ type: 'text', text: 'send_email done' }] })
  await client.close()
})

test('a server that is turned off or removed is gone at once', async () => {
  const one = await session('customer.example')
  const token = await lend.userToken('adam')
  const { items } = (await lend.api<Listed>(token, 'GET', '/admin/tool-servers')).body
  const path = `/admin/tool-servers/${items[0]?.id}`
  await lend.api(token, 'PATCH', path, { status: 'disabled' })
  await expect(one.send('jo@customer.example')).rejects.toThrow('No such tool server')
  await lend.api(token, 'PATCH', path, { status: 'active' })
  expect((await one.send('jo@customer.example')).isError).toBeUndefined()
})
