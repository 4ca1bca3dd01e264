import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { strictly } from '../../src/cli/options.ts'
import { setupFrom, setupTenant } from '../../src/cli/setup.ts'
import { SETUP_ARGS } from '../../src/cli/setup-args.ts'
import { openEmbedded } from '../../src/db/open.ts'
import type { Db, SqlValue } from '../../src/db/tx.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { createVault } from '../../src/vault.ts'
import { runOn } from '../support/databases.ts'

const GOOD = {
  tenant: 'initech',
  name: 'Initech',
  issuer: 'https://login.initech.example',
  audience: 'https://lend.initech.example/t/initech',
  'first-party-client': 'web',
  'admin-subject': '00u1',
  'admin-login': 'peter',
}
const argsOf = (given: Readonly<Record<string, string>>) =>
  Object.entries(given).flatMap(([name, value]) => [`--${name}`, value])
const from = (given: Readonly<Record<string, string>>, more: readonly string[] = []) =>
  setupFrom(strictly([...argsOf(given), ...more], SETUP_ARGS))

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'lend-cli-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('options are read strictly', () => {
  const args = { tenant: { type: 'string' }, now: { type: 'boolean' } } as const
  test.each([
    [['--tennant', 'x'], 'Unknown option'],
    [['--tenant'], 'argument missing'],
    [['--tenant', '--now'], 'ambiguous'],
    [['--now=yes'], 'does not take an argument'],
    [['--no-tenant'], 'Unknown option'],
    [['stray'], 'not expected'],
  ])('%j', (given, says) => {
    expect(() => strictly(given, args)).toThrow(says)
  })

  test('the last of several counts, where one is wanted', () => {
    const given = strictly(['--tenant', 'a', '--tenant=b', '--now'], args)
    expect(given.text('tenant')).toBe('b')
    expect(given.texts('tenant')).toEqual(['a', 'b'])
    expect(given.flag('now')).toBe(true)
  })
})

describe('setup checks every field and names the first that is wrong', () => {
  test('good options', () => {
    expect(from(GOOD, ['--first-party-client', 'cli', '--creates-users'])).toEqual({
      tenant: 'initech',
      name: 'Initech',
      issuer: 'https://login.initech.example',
      audience: 'https://lend.initech.example/t/initech',
      first_party_clients: ['web', 'cli'],
      admin: { subject: '00u1', login: 'peter' },
      creates_users: true,
      private_network: false,
    })
  })

  test.each(Object.keys(GOOD))('--%s left out', (name) => {
    const rest = Object.fromEntries(Object.entries(GOOD).filter(([key]) => key !== name))
    expect(() => from(rest)).toThrow(`--${name} must be given.`)
  })

  test.each([
    ['tenant', 'Initech', 'lower-case letters'],
    ['tenant', 'x-', 'lower-case letters'],
    ['name', '  ', 'must not be empty'],
    ['name', 'a\u202eb', 'invisible'],
    ['name', 'x'.repeat(101), 'at most 100'],
    ['issuer', 'login.initech.example', 'must be a URL'],
    ['issuer', 'https://x.example/?a', 'must be a URL'],
    ['issuer', 'http://login.initech.example', 'https'],
    ['issuer', 'ftp://login.initech.example', 'https'],
    ['audience', 'web', 'must not be a client id'],
    ['first-party-client', 'my app', 'must not have spaces'],
    ['admin-login', 'peter g', 'must not have spaces'],
    ['admin-email', 'peter', 'must be an e-mail address'],
  ])('--%s %j: %s', (name, value, says) => {
    expect(() => from({ ...GOOD, [name]: value })).toThrow(says)
    expect(() => from({ ...GOOD, [name]: value })).toThrow(`--${name} `)
  })

  test('plain http is for those who say so', () => {
    const issuer = 'http://idp.internal'
    expect(from({ ...GOOD, issuer }, ['--private-network']).issuer).toBe(issuer)
  })

  test('the web page’s own client comes with its secret, and is first-party', () => {
    const web = { ...GOOD, 'web-client-id': 'web', 'web-client-secret': 'between us' }
    expect(from(web)).toMatchObject({ web_client_id: 'web', web_client_secret: 'between us' })
    const { 'web-client-secret': secret, ...idOnly } = web
    expect(() => from(idOnly)).toThrow('--web-client-secret must be given with a web client.')
    expect(() => from({ ...GOOD, 'web-client-secret': secret })).toThrow(
      '--web-client-id must be given with its secret.',
    )
    expect(() => from({ ...web, 'web-client-id': 'other' })).toThrow(
      '--web-client-id must be one of the first-party clients.',
    )
    for (const bad of ['a\u200bb', 'é', 'x'.repeat(513)]) {
      const say = () => from({ ...web, 'web-client-secret': bad })
      expect(say).toThrow('--web-client-secret must')
      expect(say).not.toThrow(bad)
    }
  })

  test('a file says the same, in its own words', () => {
    const file = join(folder, 'setup.json')
    const good = {
      tenant: 'initech',
      name: 'Initech',
      issuer: 'https://login.initech.example',
      audience: 'api',
      first_party_clients: ['web'],
      admin: { subject: '00u1', login: 'peter' },
    }
    const read = (value: unknown) => {
      writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value))
      return setupFrom(strictly(['--file', file], SETUP_ARGS))
    }
    expect(read(good)).toMatchObject({ admin: { login: 'peter' }, creates_users: false })
    expect(() => read({ ...good, admin: { subject: 'x' } })).toThrow('admin.login must be given')
    expect(() => read({ ...good, admins: [] })).toThrow('admins is not known')
    expect(() => read({ ...good, creates_users: 'yes' })).toThrow('creates_users must be true')
    expect(() => read('{')).toThrow('is not JSON')
    expect(() => setupFrom(strictly(['--file', join(folder, 'none')], SETUP_ARGS))).toThrow(
      'cannot be read',
    )
    expect(() => from(GOOD, ['--file', file])).toThrow('not both')
  })
})

describe('setup writes one tenant', () => {
  let db: Db
  const rows = <T>(sql: string, params: readonly SqlValue[] = []) => runOn(db)<T>(sql, params)
  beforeAll(async () => {
    db = await openEmbedded(null)
  })
  afterAll(() => db.close())

  test('once, with its provider, keys, first admin and record', async () => {
    expect(await setupTenant(db, from(GOOD))).toContain('is set up, with peter as its first admin')
    const [tenant] = await rows<{ id: never }>(`select id from tenant where slug = 'initech'`)
    const [admin] = await rows(`select login, name, issuer, subject, staff_roles from app_user`)
    expect(admin).toEqual({
      login: 'peter',
      name: 'peter',
      issuer: 'https://login.initech.example',
      subject: '00u1',
      staff_roles: ['org_admin'],
    })
    expect(await rows('select alg from signing_key order by alg')).toHaveLength(2)
    const verified = await verifyActivity({ db }, { tenantId: tenant?.id as never })
    expect(verified).toMatchObject({ ok: true, records: 3 })
  })

  test('again changes nothing and is no error', async () => {
    expect(await setupTenant(db, from(GOOD))).toContain('nothing was changed')
    expect(await rows('select id from tenant')).toHaveLength(1)
  })

  test.each([
    { issuer: 'https://evil.example' },
    { audience: 'elsewhere' },
    { 'admin-subject': '00u2' },
  ])('with %j instead changes nothing and is an error', async (change) => {
    await expect(setupTenant(db, from({ ...GOOD, ...change }))).rejects.toThrow('exists already')
    expect(await rows('select id from app_user')).toHaveLength(1)
    expect(await rows('select id from identity_provider')).toHaveLength(1)
  })

  test('with the web page’s client, whose secret is in no record', async () => {
    const web = { 'web-client-id': 'web', 'web-client-secret': 'between-us' }
    await setupTenant(db, from({ ...GOOD, tenant: 'hooli', ...web }))
    const kept = () =>
      rows(
        `select web_client_id, web_client_secret as clear, sealed_web_client_secret as sealed
         from identity_provider where web_client_id is not null order by created_at`,
      )
    expect(await kept()).toEqual([{ web_client_id: 'web', clear: 'between-us', sealed: null }])
    expect(JSON.stringify(await rows('select data from activity'))).not.toContain('between-us')
  })

  const EDGE = ['--proxy', 'edge', '--proxy-family', 'nginx', '--mount', '/accounts=accounts']

  test('and no proxy of a service that nobody has published: nothing is written', async () => {
    const of = from({ ...GOOD, tenant: 'umbrella' }, EDGE)
    await expect(setupTenant(db, of)).rejects.toThrow('accounts is not a service of the catalog')
    expect(await rows(`select id from tenant where slug = 'umbrella'`)).toEqual([])
    expect(await rows('select id from gateway_proxy')).toEqual([])
  })

  test('with its first proxy and what that exposes, on a tenant that is there too; its secret is shown once', async () => {
    await rows(`insert into service values ('accounts', 'Accounts')`)
    const of = from(GOOD, EDGE)
    const said = await setupTenant(db, of)
    expect(said).toContain('Proxy edge asks at /t/initech/forward-auth/nginx')
    const secret = said.split('\n').at(-1) ?? ''
    const [proxy] = await rows(
      `select p.name, p.family, p.status, p.secret_hash, m.prefix, m.service_id
       from gateway_proxy p join gateway_mount m on m.proxy_id = p.id`,
    )
    expect(proxy).toEqual({
      name: 'edge',
      family: 'nginx',
      status: 'active',
      secret_hash: hash('sha256', secret),
      prefix: '/accounts',
      service_id: 'accounts',
    })
    expect(await setupTenant(db, of)).toContain('Proxy edge is there already and stays as it is.')
    expect(await rows('select id from gateway_proxy')).toHaveLength(1)
    expect(JSON.stringify(await rows('select data from activity'))).not.toContain(secret)
  })

  test.each([
    [['--proxy', 'edge', '--mount', '/a=accounts'], '--proxy-family'],
    [['--proxy', 'edge', '--proxy-family', 'nginx'], '--mount must be given'],
    [[...EDGE, '--mount', 'accounts=accounts'], '--mount'],
    [['--proxy', 'edge', '--proxy-family', 'apache', '--mount', '/a=accounts'], '--proxy-family'],
  ])('a proxy that is half given names what is wrong: %j', (more, says) => {
    expect(() => from(GOOD, more)).toThrow(says)
  })
})

describe('at the command line', () => {
  const lend = (...args: readonly string[]) => {
    const env = { ...process.env, LEND_DATA: folder, PORT: '', DATABASE_URL: '' }
    const done = spawnSync(process.execPath, ['--import', 'tsx', 'src/cli/main.ts', ...args], {
      env,
      encoding: 'utf8',
    })
    return { code: done.status, out: done.stdout, err: done.stderr }
  }
  test.each([
    [['demo-token', '--user', 'maya'], 'No Lend server is running'],
    [['demo-token'], 'Say whose token'],
    [['frobnicate'], 'There is no command "frobnicate"'],
    [[], 'lend help'],
    [['setup', '--tenant', 'X'], '--tenant must be'],
    [['verify-activity', '/nowhere'], '/nowhere cannot be read'],
  ])('%j fails in one sentence', { timeout: 20_000 }, (args, says) => {
    const { code, out, err } = lend(...args)
    expect(err).toContain(says)
    expect(err.trim().split('\n')).toHaveLength(1)
    expect(err).toMatch(/^lend: .*\.\n$/)
    expect({ code, out }).toEqual({ code: 1, out: '' })
  })

  test('help is on stdout, and no error', () => {
    const { code, out, err } = lend('help')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    for (const name of [
      'demo-token',
      'demo-credentials',
      'setup',
      'rotate-keys',
      'verify-activity',
    ])
      expect(out).toContain(name)
  })
})

test('setup seals where it has the key; where others did, nothing is written in clear', async () => {
  const db = await openEmbedded(null)
  const rows = runOn(db)
  const web = { 'web-client-id': 'web', 'web-client-secret': 'between-us' }
  const of = (tenant: string) => from({ ...GOOD, tenant, ...web })
  const vault = createVault([{ kid: 'a', key: Buffer.alloc(32, 1).toString('base64url') }])
  const kept = () =>
    rows<{ clear: string | null; sealed: string | null }>(
      `select private_jwk::text as clear, sealed_private_jwk as sealed from signing_key
       union all select web_client_secret, sealed_web_client_secret from identity_provider`,
    )
  const sealed = { clear: null, sealed: expect.stringMatching(/^v1\.a\./) }
  try {
    await setupTenant(db, of('initech'), vault)
    expect(await kept()).toEqual([sealed, sealed, sealed])
    await expect(setupTenant(db, of('hooli'))).rejects.toThrow('Set it as they have it.')
    expect(await rows('select slug from tenant')).toEqual([{ slug: 'initech' }])
    // While something lies in clear alone, an instance that reads nothing else may still run.
    await rows(`delete from identity_provider`)
    await rows(`update signing_key set private_jwk = '{}', sealed_private_jwk = null`)
    await setupTenant(db, of('umbrella'), vault)
    expect((await kept()).every((one) => one.sealed === null)).toBe(true)
  } finally {
    await db.close()
  }
})
