import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { mailCredential } from '../../src/demo/tool-servers.ts'
import { startUpstream } from '../mcp/support/upstream.ts'
import { serveLend } from '../support/live-server.ts'
import { createPeople, type People } from '../support/people.ts'
import { serviceSecret } from '../support/world-seed.ts'

/** `lend catalog` as a service's CI runs it: a process of its own against a server. */
let people: People
let url = ''
let stop: () => void
const dir = mkdtempSync(join(tmpdir(), 'lend-catalog-'))
beforeAll(async () => {
  people = await createPeople()
  await new Promise<void>((ready) => {
    const server = serve(
      {
        fetch: async (request) => {
          const { pathname, search } = new URL(request.url)
          const body = request.method === 'GET' ? {} : { body: await request.text() }
          return people.fetch(`${pathname}${search}`, {
            method: request.method,
            headers: request.headers,
            ...body,
          })
        },
        port: 0,
        hostname: '127.0.0.1',
      },
      (info) => {
        url = `http://127.0.0.1:${info.port}/t/studio`
        ready()
      },
    )
    stop = () => void server.close()
  })
})
afterAll(async () => {
  stop()
  rmSync(dir, { recursive: true })
  await people.world.close()
})

const write = (name: string, text: string) => {
  const path = join(dir, name)
  writeFileSync(path, text)
  return path
}
const lend = (...args: string[]) => lendWith({}, ...args)
const lendWith = (settings: Record<string, string>, ...args: string[]) =>
  new Promise<{ code: number | null; out: string; err: string }>((done) => {
    const child: ChildProcess = spawn(
      process.execPath,
      ['--import', 'tsx', 'src/cli/main.ts', 'catalog', ...args],
      {
        env: { ...process.env, LEND_CLIENT_SECRET: serviceSecret('dashboards'), ...settings },
      },
    )
    let [out, err] = ['', '']
    child.stdout?.on('data', (chunk) => {
      out += String(chunk)
    })
    child.stderr?.on('data', (chunk) => {
      err += String(chunk)
    })
    child.on('close', (code) => done({ code, out, err }))
  })
const at = () => ['--url', url, '--service', 'dashboards', '--client-id', 'scl_dashboards']

const view = {
  ...{ id: 'dashboard:view', kind: 'asset', title: 'Dashboard · View' },
  ...{ description: 'Opens one dashboard.', access: 'read', risk: 'low' },
  asset: { type: 'dashboard' },
}
const text = (more: object = {}) => JSON.stringify({ permissions: [{ ...view, ...more }] }, null, 2)

test('check names file, line, column, pointer and what is wrong', async () => {
  const bad = write('bad.json', text({ risk: 'huge', bit: 1 }).replace('"title"', '"kind"'))
  const { code, out } = await lend('check', bad)
  expect(code).toBe(1)
  expect(out).toContain(`${bad}:6:`)
  expect(out).toMatch(/\/permissions\/0\/kind is named twice/)
  expect(out).toMatch(/:\d+:\d+ \/permissions\/0\/risk /)
  expect(out).toMatch(/:\d+:\d+ \/permissions\/0\/bit is never in the file/)
  const torn = await lend('check', write('torn.json', '{"permissions": ['))
  expect([torn.code, torn.out]).toEqual([
    1,
    expect.stringMatching(/torn\.json:1:\d+ \/ is not JSON/),
  ])
  expect((await lend('check', write('good.json', text()))).code).toBe(0)
})

test('diff and publish say what tightens, and what waits', async () => {
  const first = await lend('publish', write('one.json', text()), ...at())
  expect(first.out, first.err).toContain('Published as version 2.')
  const high = write('high.json', text({ risk: 'high' }))
  const diff = await lend('diff', high, ...at())
  expect([diff.code, diff.out]).toEqual([
    0,
    expect.stringContaining(
      '- permission dashboard:view (risk high) risk tightens: "low" -> "high"',
    ),
  ])
  expect((await lend('publish', high, ...at())).code).toBe(0)
  const low = write('low.json', text())
  const waits = await lend('diff', low, ...at())
  expect([waits.code, waits.out]).toEqual([2, expect.stringContaining('! permission')])
  const stale = await lend('publish', low, ...at(), '--base-version', '2')
  expect([stale.code, stale.out]).toEqual([1, expect.stringContaining('latest version')])
  const published = await lend('publish', low, ...at())
  expect(published.out).toContain('it waits for security as prp_')
  const foreign = await lend('publish', write('f.json', text({ id: 'email:send' })), ...at())
  expect([foreign.code, foreign.out]).toEqual([
    1,
    expect.stringMatching(/f\.json:4:\d+ \/permissions\/0\/id belongs to the service mail/),
  ])
})

test('import drafts what check then takes, strict where nothing is known', async () => {
  const openapi = write(
    'openapi.json',
    JSON.stringify({
      paths: { '/users/{userId}': { get: {}, delete: {} }, '/users': { post: {} } },
    }),
  )
  const api = await lend('import', '--openapi', openapi, '--service', 'people')
  const made = JSON.parse(api.out)
  expect(made.endpoints).toHaveLength(3)
  expect(made.permissions[0]).toMatchObject({ id: 'people:read', risk: 'high', sensitive: true })
  expect((await lend('check', write('draft.json', api.out))).code).toBe(0)
  const tools = write('tools.json', JSON.stringify({ tools: [{ name: 'send_email' }] }))
  const mcp = await lend('import', '--mcp', tools, '--service', 'mail')
  expect(JSON.parse(mcp.out).permissions[0]).toMatchObject({ tool: { tools: ['mail/send_email'] } })
  expect((await lend('check', write('draft2.json', mcp.out))).code).toBe(0)
})

describe('import from an MCP server that runs', () => {
  const ids = (text: string) =>
    (JSON.parse(text).permissions as { id: string }[]).map((one) => one.id)

  test('drafts from what it lists now', async () => {
    const upstream = await startUpstream()
    try {
      const from = ['--mcp', upstream.url, '--service', 'mail', '--private-network']
      const drafted = await lend('import', ...from)
      expect(drafted.err).toBe('')
      expect(ids(drafted.out)).toEqual([
        'mail.tools:send_email',
        'mail.tools:delete_all',
        'mail.tools:search',
      ])
      expect((await lend('check', write('live.json', drafted.out))).code).toBe(0)
      upstream.tools = upstream.tools.slice(0, 1)
      expect(ids((await lend('import', ...from)).out)).toEqual(['mail.tools:send_email'])
      // Nothing was called, and nothing of this client's went along.
      expect(upstream.calls).toEqual([])
      expect(JSON.stringify(upstream.seen)).not.toContain(serviceSecret('dashboards'))
    } finally {
      await upstream.close()
    }
  })

  test('under the guards of every fetch, and says what stood in the way', async () => {
    const upstream = await startUpstream()
    try {
      const from = ['--mcp', upstream.url, '--service', 'mail']
      const guarded = await lend('import', ...from)
      expect([guarded.code, guarded.out]).toEqual([1, ''])
      expect(guarded.err).toMatch(/is not one that may be called.*--private-network/)
      expect(upstream.seen).toEqual([])
      upstream.fault = (_, res) => {
        res.writeHead(307, { location: 'http://127.0.0.1:1/mcp' }).end()
        return true
      }
      const away = await lend('import', ...from, '--private-network')
      expect(away.err).toContain('points elsewhere, and that is not followed')
    } finally {
      await upstream.close()
    }
    const gone = ['--mcp', upstream.url, '--service', 'mail', '--private-network']
    expect((await lend('import', ...gone)).err).toContain('cannot be reached')
  })

  test('the demo’s mail server, with the credential that it wants', async () => {
    const demo = await serveLend({ jobs: false })
    try {
      const url = `${demo.origin}/demo/mail/mcp`
      const from = ['--mcp', url, '--service', 'mail', '--private-network']
      const nobody = await lend('import', ...from)
      expect([nobody.code, nobody.err]).toEqual([
        1,
        expect.stringContaining('LEND_MCP_AUTHORIZATION'),
      ])
      const LEND_MCP_AUTHORIZATION = mailCredential(demo.secrets, 'acme')
      const drafted = await lendWith({ LEND_MCP_AUTHORIZATION }, 'import', ...from)
      expect(JSON.parse(drafted.out).permissions).toMatchObject([
        { id: 'mail.tools:send_email', risk: 'high', tool: { tools: ['mail/send_email'] } },
      ])
      expect(drafted.out).not.toContain(LEND_MCP_AUTHORIZATION.slice(7))
    } finally {
      await demo.close()
    }
  })
})
