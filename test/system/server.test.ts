import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  cleanEnv,
  freePort,
  root,
  type Server,
  type Settings,
  startServer,
  whenReady,
} from './support/server.ts'

const run = promisify(execFile)
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

const lend = async (settings: Settings, ...args: string[]) => {
  const bin = join(root, 'bin', 'lend.js')
  const { stdout } = await run(process.execPath, [bin, ...args], {
    cwd: root,
    env: cleanEnv(settings),
  })
  return stdout
}

type Credentials = {
  issuer: string
  token_endpoint: string
  mcp: string
  agents: { client_id: string; client_secret: string; templates: string[] }[]
}

async function startSession(settings: Settings) {
  const credentials: Credentials = JSON.parse(await lend(settings, 'demo-credentials'))
  const subject = (await lend(settings, 'demo-token', '--user', 'maya', '--client', 'app')).trim()
  const agent = credentials.agents.find((a) => a.templates.includes('renewal-briefs'))
  if (agent === undefined) throw new Error('the demo has no agent for renewal-briefs')
  const client = { client_id: agent.client_id, client_secret: agent.client_secret }
  const response = await fetch(credentials.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      ...client,
      grant_type: EXCHANGE,
      subject_token: subject,
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
    }),
  })
  const body = (await response.json()) as {
    access_token: string
    refresh_token: string
    session_id: string
  }
  expect(response.status).toBe(200)
  return { credentials, client, ...body }
}

const reissue = (session: Awaited<ReturnType<typeof startSession>>) =>
  fetch(session.credentials.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      ...session.client,
      grant_type: 'refresh_token',
      refresh_token: session.refresh_token,
    }),
  })

describe('a server on a folder of its own', () => {
  let data: string
  let settings: Settings
  let port: number

  beforeAll(async () => {
    data = mkdtempSync(join(tmpdir(), 'lend-test-'))
    port = await freePort()
    settings = { PORT: String(port), LEND_DATA: data }
  })
  afterAll(() => rmSync(data, { recursive: true, force: true }))

  it('finds everything as it was after kill -9 and after SIGTERM, which drains and exits 0', async () => {
    const first = startServer(settings)
    await whenReady(port, first)
    const session = await startSession(settings)
    expect(decodeJwt(session.access_token).authorization_details).toEqual([])
    first.child.kill('SIGKILL')
    await first.exit

    const second = startServer(settings)
    await whenReady(port, second)
    const again = await reissue(session)
    expect(again.status).toBe(200)
    const issued = (await again.json()) as { access_token: string }
    expect(decodeJwt(issued.access_token).sid).toBe(session.session_id)
    second.child.kill('SIGTERM')
    expect(await second.exit).toBe(0)

    const third = startServer(settings)
    await whenReady(port, third)
    expect((await reissue(session)).status).toBe(200)
    third.child.kill('SIGTERM')
    expect(await third.exit).toBe(0)
  })

  it('refuses a second process on the same folder, by name and process id', async () => {
    const first = startServer(settings)
    await whenReady(port, first)
    const second = startServer({ ...settings, PORT: String(await freePort()) })
    expect(await second.exit).toBe(2)
    expect(second.output()).toContain('LEND_DATA')
    expect(second.output()).toContain(String(first.child.pid))
    first.child.kill('SIGTERM')
    expect(await first.exit).toBe(0)
  })

  it('says which setting is wrong and what it should be, and does not start', async () => {
    const bad: [Settings, string][] = [
      [{ PORT: 'x' }, 'PORT'],
      [{ PUBLIC_URL: 'lend.example' }, 'PUBLIC_URL'],
      [{ PUBLIC_URL: 'http://lend.example' }, 'PUBLIC_URL'],
      [{ PUBLIC_URL: 'https://lend.example', LEND_DEMO: 'on' }, 'LEND_DEMO'],
      [{ LEND_DEMO: 'yes' }, 'LEND_DEMO'],
      [{ DATABASE_URL: 'mysql://x' }, 'DATABASE_URL'],
    ]
    for (const [setting, name] of bad) {
      const server = startServer({ LEND_DATA: 'memory', ...setting })
      expect(await server.exit).toBe(2)
      const [line = ''] = server.output().trim().split('\n')
      expect(line.startsWith(`${name} `)).toBe(true)
      expect(server.output()).not.toContain('    at ')
    }
  })
})

describe('a demo server', () => {
  let port: number
  let settings: Settings
  let server: Server

  beforeAll(async () => {
    port = await freePort()
    settings = { PORT: String(port), LEND_DATA: 'memory' }
    server = startServer(settings)
    await whenReady(port, server)
  })
  afterAll(async () => {
    server.child.kill('SIGTERM')
    await server.exit
  })

  it('listens on loopback only', async () => {
    const sockets = readFileSync('/proc/net/tcp', 'utf8') + readFileSync('/proc/net/tcp6', 'utf8')
    const hex = port.toString(16).toUpperCase().padStart(4, '0')
    const listening = sockets
      .split('\n')
      .filter((line) => line.includes(`:${hex} `) && / 0A /.test(line))
      .map((line) => line.trim().split(/\s+/)[1]?.split(':')[0])
    expect(listening.length).toBeGreaterThan(0)
    for (const address of listening)
      expect(['0100007F', '00000000000000000000000001000000']).toContain(address)
  })

  it('keeps the run file to its owner, and prints a token and nothing else', async () => {
    const token = await lend(settings, 'demo-token', '--user', 'maya')
    expect(token).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\n$/)
    const file = join(tmpdir(), `lend-${process.getuid?.()}`, `run-${port}.json`)
    expect(statSync(file).mode & 0o077).toBe(0)
  })

  it('I6: the token that the app exchanges opens nothing at the People API, and the people’s starts no session', async () => {
    const app = (await lend(settings, 'demo-token', '--user', 'maya', '--client', 'app')).trim()
    const people = (await lend(settings, 'demo-token', '--user', 'maya')).trim()
    const me = (token: string) =>
      fetch(`http://localhost:${port}/t/acme/api/me`, {
        headers: { authorization: `Bearer ${token}` },
      })
    expect((await me(app)).status).toBe(403)
    expect((await me(people)).status).toBe(200)
    const session = await startSession(settings)
    expect((await me(session.access_token)).status).toBe(401)
    const swapped = await fetch(session.credentials.token_endpoint, {
      method: 'POST',
      body: new URLSearchParams({
        ...session.client,
        grant_type: EXCHANGE,
        subject_token: people,
        subject_token_type: ACCESS_TOKEN,
        template: 'renewal-briefs',
      }),
    })
    expect(swapped.status).toBe(400)
    expect(await swapped.json()).toMatchObject({
      error: 'invalid_request',
      error_reason: 'subject_token_not_for_this_agent',
    })
  })

  it('I18: logs no token, secret or assertion', async () => {
    const session = await startSession(settings)
    for (const secret of [
      session.access_token,
      session.refresh_token,
      session.client.client_secret,
    ])
      expect(server.output()).not.toContain(secret)
  })
})
