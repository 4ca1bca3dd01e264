import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { checkpointKey } from '../../src/checkpoint-key.ts'
import { doctor } from '../../src/cli/doctor.ts'
import { configFrom } from '../../src/config.ts'
import { openEmbedded } from '../../src/db/open.ts'
import {
  connectionsOf,
  migrationsOf,
  openOf,
  skewOf,
  versionOf,
} from '../../src/ops/doctor/database.ts'
import type { Finding } from '../../src/ops/doctor/finding.ts'
import { dataFolder } from '../../src/ops/doctor/settings.ts'
import { createVault } from '../../src/vault.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase, urlOf } from '../support/postgres.ts'
import { scratchRedis } from '../support/redis.ts'
import { secretText, TENANTS } from './support/doctor.ts'

/** Every finding of the doctor, each made by what it is there to find. */

async function findingsOf(
  env: NodeJS.ProcessEnv,
): Promise<{ code: number; all: readonly Finding[] }> {
  let text = ''
  const code = await doctor(env, (line) => (text += line), { json: true })
  return { code, all: JSON.parse(text) }
}
const said = (all: readonly Finding[], check: string) =>
  all.filter((one) => one.check === check).map(({ level, says }) => `${level}: ${says}`)

/** A port that nothing listens on. */
async function closedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  await new Promise((done) => server.close(done))
  return port
}

let data: string
let port: number
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'lend-doctor-'))
  port = await closedPort()
  env = { LEND_DATA: data, PORT: String(port), PUBLIC_URL: `http://127.0.0.1:${port}` }
})
afterEach(() => rmSync(data, { recursive: true, force: true }))

describe('settings', () => {
  test('one that is wrong: its name, what it should be, and nothing else is tried', async () => {
    const { code, all } = await findingsOf({ ...env, PORT: 'x' })
    expect(code).toBe(1)
    expect(said(all, 'settings')).toEqual([
      'wrong: PORT must be a whole number from 1 to 65535, not "x"',
    ])
    expect(all).toHaveLength(1)
  })

  test('one that nothing reads', async () => {
    const { code, all } = await findingsOf({ ...env, LEND_SECRET_KEY: 'a' })
    expect(code).toBe(0)
    expect(said(all, 'settings')).toContain('warn: LEND_SECRET_KEY is set, but nothing reads it')
  })

  test('what instances on one server must share', async () => {
    const { all } = await findingsOf({ ...env, DATABASE_URL: 'postgres://u:secret@127.0.0.1:1/x' })
    expect(said(all, 'secret keys')[0]).toMatch(/^warn/)
    expect(said(all, 'checkpoint keys')[0]).toMatch(/^warn/)
  })
})

describe('the bus', () => {
  const SERVER = 'postgres://u:secret@127.0.0.1:1/x'
  const bus = async (more: NodeJS.ProcessEnv) => {
    const { all } = await findingsOf({ ...env, ...more })
    expect(JSON.stringify(all)).not.toContain('hidden')
    return said(all, 'bus')[0]
  }

  test('Redis: there, gone, with a user that may not, or beside an embedded database', async () => {
    const redis = await scratchRedis()
    const REDIS_URL = redis.url
    expect(await bus({ DATABASE_URL: SERVER, REDIS_URL })).toBe(
      'ok: a kick through Redis comes back',
    )
    expect(await bus({ REDIS_URL })).toMatch(/^warn: REDIS_URL is set, but the embedded/)
    const wrongUser = REDIS_URL.replace('//', '//lend:hidden@')
    expect(await bus({ DATABASE_URL: SERVER, REDIS_URL: wrongUser })).toBe(
      'wrong: no kick comes through Redis (WRONGPASS)',
    )
    await redis.stop()
    expect(await bus({ DATABASE_URL: SERVER, REDIS_URL })).toBe(
      'wrong: no kick comes through Redis (ECONNREFUSED)',
    )
  })

  test('a REDIS_URL that is none stops at the settings', async () => {
    const { code, all } = await findingsOf({ ...env, REDIS_URL: 'http://localhost:6379' })
    expect(code).toBe(1)
    expect(said(all, 'settings')[0]).toMatch(/^wrong: REDIS_URL must be a Redis or Valkey URL/)
  })
})

describe('the data folder', () => {
  test('kept nowhere', async () => {
    const { code, all } = await findingsOf({ ...env, LEND_DATA: 'memory' })
    expect(code).toBe(0)
    expect(said(all, 'data folder')[0]).toMatch(/^warn: LEND_DATA=memory/)
  })

  test('a new one is well, and the doctor leaves nothing in it', async () => {
    const { code, all } = await findingsOf(env)
    expect(code).toBe(0)
    expect(said(all, 'database')).toEqual(['ok: there is none yet; the first start makes it'])
    expect(readdirSync(data)).toEqual([])
    const none = join(data, 'none')
    await findingsOf({ ...env, LEND_DATA: none })
    expect(existsSync(none)).toBe(false)
  })

  test('not ours to write', async () => {
    const config = configFrom(env, '/srv')
    // As the system answers whoever is not the superuser, whom nothing is denied.
    const denied = () => {
      throw new Error('EACCES')
    }
    const [found] = await dataFolder(config, denied)
    expect(found?.level).toBe('wrong')
    expect(found?.says).toContain('cannot be written')
  })

  test('a file where the folder should be', async () => {
    writeFileSync(join(data, 'file'), '')
    const { code, all } = await findingsOf({ ...env, LEND_DATA: join(data, 'file') })
    expect(code).toBe(1)
    expect(said(all, 'data folder')[0]).toMatch(/^wrong: .* is no folder/)
  })

  test.each([
    ['checkpoint key', 'checkpoint-key.json'],
    ['secret key', 'secret-key.json'],
  ])('a %s that others can read', async (check, file) => {
    writeFileSync(join(data, file), '{}', { mode: 0o644 })
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, check)[0]).toMatch(/^wrong: .*can be read by others/)
  })

  test.each([
    ['checkpoint key', 'checkpoint-key.json'],
    ['secret key', 'secret-key.json'],
  ])('a %s that is none', async (check, file) => {
    writeFileSync(join(data, file), 'gone', { mode: 0o600 })
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, check)[0]).toMatch(/^wrong: .*cannot be read as a key/)
  })

  test('a checkpoint key that the others do not know', async () => {
    await checkpointKey(data)
    const { code, all } = await findingsOf({ ...env, LEND_CHECKPOINT_KEYS: 'a'.repeat(43) })
    expect(code).toBe(1)
    expect(said(all, 'checkpoint key')[0]).toMatch(/^wrong: .*not among LEND_CHECKPOINT_KEYS/)
    const mend = all.find((one) => one.check === 'checkpoint key')?.mend ?? ''
    const [thumbprint = ''] = /[\w-]{43}/.exec(mend) ?? []
    const mended = await findingsOf({ ...env, LEND_CHECKPOINT_KEYS: thumbprint })
    expect(said(mended.all, 'checkpoint key')[0]).toMatch(/^ok/)
  })
})

describe('the embedded database', () => {
  test('one that a server has open is left alone', async () => {
    const db = await openEmbedded(data)
    const { code, all } = await findingsOf(env)
    expect(code).toBe(0)
    expect(said(all, 'database')).toEqual(['unknown: a running server has it open'])
    await db.close()
    const after = await findingsOf(env)
    expect(said(after.all, 'migrations')[0]).toMatch(/^ok/)
    expect(said(after.all, 'tenants')).toEqual(['warn: there is none'])
    // It was given back.
    await (await openEmbedded(data)).close()
  })
})

describe('a server that cannot be reached', () => {
  test('nothing listens', async () => {
    const url = `postgres://u:pa55word@127.0.0.1:${port}/x`
    const { code, all } = await findingsOf({ ...env, DATABASE_URL: url })
    expect(code).toBe(1)
    expect(said(all, 'database')).toEqual(['wrong: it cannot be reached (ECONNREFUSED)'])
    // The password is in no finding.
    expect(JSON.stringify(all)).not.toContain('pa55word')
  })

  test.skipIf(postgresIsLeftOut)('there is no such database', async () => {
    const { code, all } = await findingsOf({ ...env, DATABASE_URL: urlOf('lend_none_such') })
    expect(code).toBe(1)
    expect(said(all, 'database')).toEqual(['wrong: it cannot be reached (3D000)'])
    expect(all.find((one) => one.check === 'database')?.mend).toContain('create it')
  })
})

describe('judged by numbers', () => {
  test.each([
    [140_015, 'wrong'],
    [150_000, 'ok'],
    [170_002, 'ok'],
  ])('version %d is %s', (version, level) => {
    expect(versionOf({ version, versionText: 'x' }).level).toBe(level)
  })
  test.each([
    [100, 97, 'warn'],
    [100, 78, 'warn'],
    [100, 77, 'ok'],
  ])('of %d connections %d in use: %s', (most, used, level) => {
    expect(connectionsOf({ most, used }).level).toBe(level)
  })
  test.each([
    [100, 100, 100, 'ok'],
    [100, 101, 100.5, 'ok'],
    // A slow answer is no skew: it may have been said at any moment in between.
    [100, 160, 130, 'ok'],
    [100, 100, 103, 'warn'],
    [100, 100, 97, 'warn'],
    [100, 100, 131, 'wrong'],
    [100, 101, 60, 'wrong'],
  ])('asked at %d, answered at %d, %d there: %s', (before, after, there, level) => {
    expect(skewOf({ before, after, there }).level).toBe(level)
  })
  test.each([
    [[1, 2], 'ok'],
    [[1], 'warn'],
    [[], 'warn'],
    [[1, 2, 3], 'wrong'],
  ])('migrations %j: %s', (applied, level) => {
    const ours = [
      { tag: '0000_a', when: 1 },
      { tag: '0001_b', when: 2 },
    ]
    expect(migrationsOf(applied, ours).level).toBe(level)
  })
})

describe.skipIf(postgresIsLeftOut)('a server', () => {
  let template: Scratch
  let scratch: Scratch
  let sql: postgres.Sql
  // Kept while the others come and go: what they are copied from goes with the last.
  beforeAll(async () => {
    template = await scratchDatabase()
  })
  afterAll(() => template.drop())
  beforeEach(async () => {
    scratch = await scratchDatabase()
    sql = postgres(scratch.url, { max: 2, onnotice: () => {} })
    env.DATABASE_URL = scratch.url
    await sql.unsafe(TENANTS)
  })
  afterEach(async () => {
    await sql.end({ timeout: 1 })
    await scratch.drop()
  })

  test('all well but for the address: nothing runs there', async () => {
    const { code, all } = await findingsOf(env)
    expect(code).toBe(0)
    expect(said(all, 'database')[0]).toMatch(/^ok: Postgres/)
    expect(said(all, 'migrations')[0]).toMatch(/^ok/)
    expect(said(all, 'clocks')[0]).toMatch(/^ok/)
    expect(said(all, 'credentials')[0]).toMatch(/^ok/)
    expect(said(all, 're-evaluation')[0]).toMatch(/^ok/)
    expect(said(all, 'address')[0]).toMatch(/^warn: .*ECONNREFUSED/)
  })

  test('changes nothing: no migration, no key, no row', async () => {
    const before = await sql`select count(*)::int as n from activity`
    await sql.unsafe('drop schema drizzle cascade')
    const { code, all } = await findingsOf(env)
    expect(code).toBe(0)
    expect(said(all, 'migrations')[0]).toMatch(/^warn: \d+ of \d+ are not applied, from 0000_first/)
    expect(await sql`select to_regnamespace('drizzle') as there`).toEqual([{ there: null }])
    expect(await sql`select count(*)::int as n from activity`).toEqual(before)
    expect(readdirSync(data)).toEqual([])
  })

  test('a newer version of Lend has been here', async () => {
    await sql`insert into drizzle.__drizzle_migrations (hash, created_at) values ('x', 9796800000000)`
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, 'migrations')).toEqual(['wrong: a newer version of Lend has been here'])
  })

  test('read-only', async () => {
    const name = new URL(scratch.url).pathname.slice(1)
    await sql.unsafe(`alter database ${name} set default_transaction_read_only = on`)
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, 'database')).toContain('wrong: this user’s transactions are read-only')
  })

  test('credentials that open with none of the keys, or with an older one', async () => {
    const key = (kid: string, fill: number) => ({
      kid,
      key: Buffer.alloc(32, fill).toString('base64url'),
    })
    const [a, b, c] = [key('a', 1), key('b', 2), key('c', 3)]
    const sealed = createVault([a]).seal('Bearer x', 'tool_server ten_a tsv_1')
    await sql.unsafe(secretText(sealed))
    const keyed = (...keys: { kid: string; key: string }[]) =>
      findingsOf({ ...env, LEND_SECRET_KEYS: keys.map((k) => `${k.kid}:${k.key}`).join(',') })
    const none = await findingsOf(env)
    expect(none.code).toBe(1)
    expect(said(none.all, 'credentials')[0]).toMatch(/^wrong: those of tsv_1 open with none/)
    expect((await keyed(c, b)).code).toBe(1)
    expect(said((await keyed(b, a)).all, 'credentials')[0]).toMatch(/^warn: 1 of 1/)
    expect(said((await keyed(a)).all, 'credentials')[0]).toMatch(/^ok: all 1/)
  })

  test.each<[string, { clear?: boolean; by?: string }, string, RegExp]>([
    ['in clear, no key that all have', { clear: true }, '', /^warn: 1 of 1 lie in clear/],
    ['in clear, with keys', { clear: true }, 'a', /^warn: 1 of 1 lie in clear/],
    ['sealed, and no key here', { by: 'a' }, '', /^wrong: those of kid_1 open with none/],
    ['sealed with another key', { by: 'a' }, 'b', /^wrong: those of kid_1 open with none/],
    ['sealed with an older key', { by: 'a' }, 'b,a', /^warn: 1 of 1 are sealed with an older key/],
    ['sealed with the first key', { by: 'a' }, 'a,b', /^ok: all 1 are sealed/],
  ])('a signing key and a web client’s secret, %s', async (_, how, keys, says) => {
    const named = (kid: string) => ({
      kid,
      key: Buffer.alloc(32, kid.charCodeAt(0)).toString('base64url'),
    })
    const sealedFor = (context: string) =>
      how.by === undefined ? null : createVault([named(how.by)]).seal('{}', context)
    await sql`insert into signing_key
        (kid, tenant_id, alg, private_jwk, sealed_private_jwk, public_jwk, status, created_at)
      values ('kid_1', 'ten_a', 'ES256', ${how.clear ? '{}' : null}::text::jsonb,
        ${sealedFor('signing_key ten_a kid_1')}, '{}', 'active', now())`
    await sql`insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, status,
        web_client_id, web_client_secret, sealed_web_client_secret, created_at)
      values ('kid_1', 'ten_a', 'https://idp.example', 'x', '{web}', 'disabled', 'web',
        ${how.clear ? '{}' : null}, ${sealedFor('identity_provider ten_a kid_1')}, now())`
    const text = keys
      .split(',')
      .filter(Boolean)
      .map((kid) => `${kid}:${named(kid).key}`)
    const { code, all } = await findingsOf({ ...env, LEND_SECRET_KEYS: text.join(',') })
    expect(said(all, 'signing keys')[0]).toMatch(says)
    expect(said(all, 'web client secrets')[0]).toMatch(says)
    expect(code).toBe(says.source.includes('wrong') ? 1 : 0)
  })

  test('a tenant where nobody can sign in; a proxy that exposes nothing', async () => {
    await sql`insert into gateway_proxy (id, tenant_id, name, secret_hash, created_at)
      values ('prx_1', 'ten_a', 'edge', ${'0'.repeat(64)}, now())`
    const { code, all } = await findingsOf(env)
    expect(code).toBe(0)
    expect(said(all, 'tenants')).toContain(
      'warn: acme trusts no identity provider: nobody can sign in',
    )
    expect(said(all, 'proxies')[0]).toMatch(/^warn: "edge" of acme exposes nothing/)
  })

  test('a change of access that nobody acts on', async () => {
    await sql`insert into feed (tenant_id, user_id, topic, data, at)
      values ('ten_a', null, 'access_changed', '{}', now() - interval '5 minutes')`
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, 're-evaluation')[0]).toMatch(
      /^wrong: a change of access has waited for 30\d s/,
    )
  })

  test('a provider that does not answer, told by tenant and issuer; one that lies about its name', async () => {
    const issuer = `http://127.0.0.1:${await closedPort()}`
    await sql`insert into identity_provider
      (id, tenant_id, issuer, audience, first_party_clients, private_network, created_at)
      values ('idp_1', 'ten_a', ${issuer}, 'x', '{web}', true, now())`
    const { code, all } = await findingsOf(env)
    expect(code).toBe(1)
    expect(said(all, 'providers')).toEqual([
      `wrong: ${issuer} of acme does not answer with discovery and keys`,
    ])
    await sql`update identity_provider set issuer = ${`${env.PUBLIC_URL}/demo/idp/acme`}`
    const own = await findingsOf(env)
    expect(own.code).toBe(0)
    expect(said(own.all, 'providers')[0]).toMatch(/^unknown: .*runs with this server/)
  })

  describe('and an address where something answers', () => {
    let server: Server
    let answers: Record<string, { status: number; body: string }>
    beforeAll(async () => {
      server = createServer((req, res) => {
        const found = answers[req.url ?? ''] ?? { status: 404, body: '{}' }
        res.writeHead(found.status, { 'content-type': 'application/json' }).end(found.body)
      })
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    })
    afterAll(() => server.close())
    const here = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const WELL_KNOWN = '/.well-known/oauth-authorization-server/t/acme'
    const json = (status: number, body: object) => ({ status, body: JSON.stringify(body) })
    const looked = () => findingsOf({ ...env, PUBLIC_URL: here() })

    test('ready, with the issuer that it should have', async () => {
      answers = {
        '/readyz': json(200, { status: 'ok' }),
        [WELL_KNOWN]: json(200, { issuer: `${here()}/t/acme` }),
      }
      const { code, all } = await looked()
      expect(code).toBe(0)
      expect(said(all, 'address')).toEqual([`ok: ${here()} is ready`])
      expect(said(all, 'issuer')[0]).toMatch(/^ok/)
    })
    test('another program', async () => {
      answers = { '/readyz': { status: 200, body: '<html>' } }
      const { code, all } = await looked()
      expect(code).toBe(1)
      expect(said(all, 'address')[0]).toMatch(/^wrong: .*something else than Lend answers/)
    })
    test('not ready', async () => {
      answers = { '/readyz': json(503, { status: 'starting' }) }
      const { code, all } = await looked()
      expect(code).toBe(1)
      expect(said(all, 'address')[0]).toMatch(/^wrong: .*not ready \(starting\)/)
    })
    test('an instance with another PUBLIC_URL', async () => {
      answers = {
        '/readyz': json(200, { status: 'ok' }),
        [WELL_KNOWN]: json(200, { issuer: 'https://other.example/t/acme' }),
      }
      const { code, all } = await looked()
      expect(code).toBe(1)
      expect(said(all, 'issuer')[0]).toMatch(/^wrong: metadata names another issuer/)
    })
    test('a proxy in front that keeps the well-known addresses to itself', async () => {
      answers = { '/readyz': json(200, { status: 'ok' }) }
      const { code, all } = await looked()
      expect(code).toBe(1)
      expect(said(all, 'issuer')[0]).toMatch(/^wrong: no metadata of acme/)
    })
  })

  test('a transaction left open holds back what was taken back', async () => {
    const held = await sql.reserve()
    await held`begin`
    await held`select pg_current_xact_id()`
    expect(openOf({ oldestOpen: 61 })[0]?.level).toBe('warn')
    expect(openOf({ oldestOpen: 59 })).toEqual([])
    const { code, all } = await findingsOf(env)
    expect([code, said(all, 'transactions')]).toEqual([0, []])
    await held`rollback`
    held.release()
  })
})

test('in words: what is wrong and, below it, how to mend it', async () => {
  mkdirSync(join(data, 'x'))
  const lines: string[] = []
  const code = await doctor({ ...env, PORT: '0' }, (line) => lines.push(line), { json: false })
  expect(code).toBe(1)
  expect(lines).toEqual([
    'WRONG  settings: PORT must be a whole number from 1 to 65535, not "0"',
    '       Mend it and look again: with it the server does not start.',
    '0 well, 0 warnings, 1 wrong, 0 not seen',
  ])
})
