import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestProvider, testProvider } from '../support/provider.ts'
import { cleanEnv, freePort, root, type Server, startServer, whenReady } from './support/server.ts'

/**
 * From nothing to a first publish, without the demo: the command line sets up the organisation that runs the catalog, its
 * first admin registers a service by its key, and the service's CI publishes with that key (`private_key_jwt`).
 */
let data: string
let provider: TestProvider
let server: Server
let origin = ''
beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'lend-operator-'))
  provider = await testProvider()
})
afterAll(async () => {
  server?.child.kill('SIGTERM')
  await server?.exit
  await provider.close()
  rmSync(data, { recursive: true, force: true })
})

const lend = (env: Record<string, string>, ...args: string[]) => {
  const done = spawnSync(process.execPath, [join(root, 'bin', 'lend.js'), ...args], {
    ...{ cwd: root, encoding: 'utf8' },
    env: cleanEnv({ LEND_DATA: data, LEND_CLIENT_SECRET: '', LEND_CLIENT_KEY: '', ...env }),
  })
  return { code: done.status, out: done.stdout, err: done.stderr }
}
const setUp = (tenant: string, ...more: string[]) =>
  lend(
    {},
    ...['setup', '--tenant', tenant, '--name', tenant, '--issuer', provider.issuer],
    ...['--audience', `lend-${tenant}`, '--first-party-client', 'cli', '--private-network'],
    ...['--admin-subject', `${tenant}-ada`, '--admin-login', 'ada', ...more],
  )

type Answer = { readonly status: number; readonly body: Record<string, unknown> }
async function asAda(tenant: string, method: string, path: string, body?: object): Promise<Answer> {
  const token = await provider.mint({
    ...{ sub: `${tenant}-ada`, aud: `lend-${tenant}`, client_id: 'cli' },
  })
  const response = await fetch(`${origin}/t/${tenant}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

const keyFile = (name: string) => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const file = join(data, name)
  writeFileSync(file, JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: name }))
  return { file, jwks: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: name }] } }
}

const PERMISSIONS = {
  permissions: [
    {
      ...{ id: 'tickets:read', kind: 'api', title: 'Tickets · Read', access: 'read', risk: 'low' },
      description: 'Reads tickets.',
    },
  ],
  endpoints: [
    {
      method: 'GET',
      pattern: '/tickets',
      access: 'ACCESS_CONTROLLED',
      permissions: ['tickets:read'],
    },
  ],
}

test('setup names the operator, once', () => {
  const made = setUp('hooli', '--operator')
  expect(made.out, made.err).toContain('From now on hooli runs the catalog.')
  expect(setUp('hooli', '--operator').out).toContain('It runs the catalog.')
  const other = setUp('initech', '--operator')
  expect(other).toMatchObject({ code: 1, err: expect.stringContaining('run by hooli already') })
  // Refused whole: the organisation was not made either.
  expect(setUp('initech').out).toContain('Tenant initech is set up, with ada')
})

test('its admin registers a service by its key, and the service publishes with it', async () => {
  const port = await freePort()
  server = startServer({ PORT: String(port), LEND_DATA: data, LEND_DEMO: 'off' })
  await whenReady(port, server)
  origin = `http://localhost:${port}`
  const { file: LEND_CLIENT_KEY, jwks } = keyFile('ci')
  const service = { id: 'tickets', title: 'Tickets', jwks }
  expect((await asAda('initech', 'POST', '/admin/services', service)).status).toBe(404)
  const made = await asAda('hooli', 'POST', '/admin/services', service)
  expect([made.status, made.body.client_secret, made.body.has_secret]).toEqual([
    201,
    undefined,
    false,
  ])

  const permissions = join(data, 'permissions.json')
  writeFileSync(permissions, JSON.stringify(PERMISSIONS))
  const publishing = [
    ...['catalog', 'publish', permissions, '--url', `${origin}/t/hooli`],
    ...['--service', 'tickets', '--client-id', String(made.body.client_id)],
  ]
  const first = lend({ LEND_CLIENT_KEY }, ...publishing)
  expect(first.out, first.err).toContain('Published as version 1.')
  const listed = await asAda('hooli', 'GET', '/catalog/tickets:read')
  expect(listed.body).toMatchObject({ id: 'tickets:read', service: 'tickets', risk: 'low' })
  // What is in the catalog is the whole deployment's.
  expect((await asAda('initech', 'GET', '/catalog/tickets:read')).status).toBe(200)

  const stranger = lend({ LEND_CLIENT_KEY: keyFile('stranger').file }, ...publishing)
  expect([stranger.code, stranger.out]).toEqual([1, expect.not.stringContaining('Version')])
  expect(lend({ LEND_CLIENT_SECRET: 'guess' }, ...publishing).code).toBe(1)
  expect(lend({}, ...publishing).err).toContain('LEND_CLIENT_KEY')
  expect(lend({ LEND_CLIENT_KEY: permissions }, ...publishing).err).toContain(
    'is not a private key',
  )

  const next = keyFile('next')
  await asAda('hooli', 'PATCH', '/admin/services/tickets', { jwks: next.jwks })
  expect(lend({ LEND_CLIENT_KEY }, ...publishing).code).toBe(1)
  expect(lend({ LEND_CLIENT_KEY: next.file }, ...publishing).out).toContain('Version 1 stands.')
})
