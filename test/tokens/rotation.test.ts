import { calculateJwkThumbprint, decodeProtectedHeader } from 'jose'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Db, withTx } from '../../src/db/tx.ts'
import {
  advanceKeys,
  createKeyStore,
  createTenantKeys,
  JWKS_MAX_AGE_SECONDS,
  jwksOf,
  type KeyStore,
  NEXT_KEY_WAIT_SECONDS,
  RETIRED_KEY_KEPT_SECONDS,
  type RotationPace,
  rotateKeys,
} from '../../src/tokens/keys.ts'
import { signToken } from '../../src/tokens/sign.ts'
import { verifySessionToken } from '../../src/tokens/verify.ts'
import {
  ACME,
  freshDb,
  GLOBEX,
  issuerOf,
  MCP,
  START,
  someClaims,
  stoppedClock,
  type TestClock,
} from './world.ts'

let db: Db
let clock: TestClock
let here: KeyStore
let there: KeyStore

beforeAll(async () => {
  db = await freshDb()
  await withTx(db, 'test', (tx) => tx.sql`create table first_keys as select * from signing_key`)
})

beforeEach(async () => {
  await withTx(db, 'test', async (tx) => {
    await tx.sql`delete from signing_key`
    await tx.sql`insert into signing_key select * from first_keys`
  })
  clock = stoppedClock()
  here = createKeyStore({ db, clock, vault: undefined })
  there = createKeyStore({ db, clock, vault: undefined })
})

const rotate = (pace?: RotationPace) =>
  withTx(db, 'test', (tx) =>
    rotateKeys(tx, {
      tenantId: ACME.id,
      alg: 'ES256',
      now: clock.seconds(),
      vault: undefined,
      ...(pace === undefined ? {} : { pace }),
    }),
  )
const published = async () =>
  (await withTx(db, 'test', (tx) => jwksOf(tx, ACME.id))).keys.map((key) => key.kid)
const issue = (by: KeyStore) =>
  signToken(by, { tenantId: ACME.id, claims: someClaims(clock.seconds()) })
const verifies = async (on: KeyStore, token: string) =>
  (
    await verifySessionToken(on, {
      token,
      tenant: ACME,
      issuer: issuerOf(ACME),
      audience: MCP,
      now: clock.seconds(),
    })
  ).ok
const kidOf = (token: string) => decodeProtectedHeader(token).kid
/** What a verifier elsewhere, which obeys max-age, knows. */
const cachedKids = async (at: KeyStore) => (await at.jwks(ACME.id)).keys.map((key) => key.kid)

describe('new keys', () => {
  it('are ES256 on P-256 and RS256 of 2048 bits with e = 65537, named by thumbprint, without private parts', async () => {
    const { keys } = await here.jwks(ACME.id)
    expect(keys.map((key) => [key.alg, key.kty, key.use])).toEqual([
      ['ES256', 'EC', 'sig'],
      ['RS256', 'RSA', 'sig'],
    ])
    expect(keys[0]?.crv).toBe('P-256')
    expect(keys[1]?.e).toBe('AQAB')
    expect(Buffer.from(keys[1]?.n ?? '', 'base64url')).toHaveLength(256)
    for (const key of keys) {
      expect(key.kid).toBe(await calculateJwkThumbprint(key))
      for (const name of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k'])
        expect(key).not.toHaveProperty(name)
    }
  })

  it('are made once: the database refuses a second active key', async () => {
    const again = withTx(db, 'test', (tx) =>
      createTenantKeys(tx, { tenantId: ACME.id, now: START, vault: undefined }),
    )
    await expect(again).rejects.toThrow()
  })

  it('differ between tenants (I17)', async () => {
    const acme = await here.verifierKeys(ACME.id)
    const globex = await here.verifierKeys(GLOBEX.id)
    expect([...acme.keys()].filter((kid) => globex.has(kid))).toEqual([])
  })
})

it('a staged rotation is seen by nobody: each instance verifies the other’s tokens at every second', async () => {
  const first = await rotate()
  expect(first).toMatchObject({ stage: 'published', activeFrom: START + NEXT_KEY_WAIT_SECONDS })
  const alive: string[] = []
  const cache: { kids: (string | undefined)[]; at: number } = { kids: [], at: 0 }
  let activated = 0
  for (let second = 0; second < NEXT_KEY_WAIT_SECONDS + 200; second += 7) {
    const at = clock.seconds()
    const job = await withTx(db, 'test', (tx) => advanceKeys(tx, at))
    activated += job.filter((done) => done.rotation.stage === 'activated').length
    // A verifier outside that reads as rarely as max-age lets it, through the staler of the two instances.
    if (at - cache.at >= JWKS_MAX_AGE_SECONDS)
      Object.assign(cache, { kids: await cachedKids(there), at })
    for (const by of [here, there]) {
      const token = await issue(by)
      expect(cache.kids).toContain(kidOf(token))
      alive.push(token)
    }
    for (const token of alive.slice(-40)) {
      expect(await verifies(here, token)).toBe(true)
      expect(await verifies(there, token)).toBe(true)
    }
    clock.forward(7)
  }
  expect(activated).toBe(1)
  expect(new Set(alive.map(kidOf)).size).toBe(2)
})

it('a staged rotation waits, then activates, then forgets the old key when its last token is dead', async () => {
  const old = (await here.signer(ACME.id)).kid
  const { kid } = await rotate()
  expect(await rotate()).toMatchObject({ stage: 'waiting', kid })
  clock.forward(NEXT_KEY_WAIT_SECONDS - 1)
  expect(await rotate()).toMatchObject({ stage: 'waiting', kid })
  // The last token that the old key can sign: by an instance that has just read its keys.
  await here.signer(ACME.id)
  clock.forward(1)
  expect(await rotate()).toEqual({ stage: 'activated', kid, replaced: old })
  clock.forward(28)
  const last = await issue(here)
  expect(kidOf(last)).toBe(old)
  clock.forward(899)
  await withTx(db, 'test', (tx) => advanceKeys(tx, clock.seconds()))
  expect(await verifies(there, last)).toBe(true)
  clock.forward(RETIRED_KEY_KEPT_SECONDS)
  await withTx(db, 'test', (tx) => advanceKeys(tx, clock.seconds()))
  expect(await published()).not.toContain(old)
  expect(await published()).toContain(kid)
})

it('at once: the other instance meets an unknown kid and reads the keys again', async () => {
  const before = await issue(here)
  expect(await verifies(there, before)).toBe(true)
  clock.forward(2)
  const done = await rotate('at_once')
  expect(done.stage).toBe('activated')
  const restarted = createKeyStore({ db, clock, vault: undefined })
  const token = await issue(restarted)
  expect(kidOf(token)).toBe(done.kid)
  expect(await verifies(there, token)).toBe(true)
  // And what the other one still signs with the old key is good everywhere.
  const late = await issue(here)
  expect(kidOf(late)).not.toBe(done.kid)
  expect(await verifies(restarted, late)).toBe(true)
  expect(await verifies(restarted, before)).toBe(true)
})

it('at once takes the key that was published already, which more verifiers know', async () => {
  const { kid } = await rotate()
  clock.forward(10)
  expect(await rotate('at_once')).toMatchObject({ stage: 'activated', kid })
})

it('leaked: nothing that the old key signed verifies anywhere after the caches turn over', async () => {
  const token = await issue(here)
  await rotate()
  const { kid } = await rotate('leaked')
  expect(await published()).toHaveLength(2)
  clock.forward(31)
  expect(await verifies(here, token)).toBe(false)
  expect(kidOf(await issue(here))).toBe(kid)
})

it('rotations of one algorithm at the same time publish one key', async () => {
  const both = await Promise.all([rotate(), rotate()])
  expect(both.map((one) => one.stage).sort()).toEqual(['published', 'waiting'])
  expect(new Set(both.map((one) => one.kid)).size).toBe(1)
})

it('rotates RS256 apart from ES256', async () => {
  const es = (await here.signer(ACME.id)).kid
  const rs = (await here.signer(ACME.id, 'RS256')).kid
  const done = await withTx(db, 'test', (tx) =>
    rotateKeys(tx, {
      ...{ tenantId: ACME.id, alg: 'RS256', now: START, vault: undefined },
      pace: 'at_once',
    }),
  )
  expect(done).toMatchObject({ replaced: rs })
  const after = createKeyStore({ db, clock, vault: undefined })
  expect((await after.signer(ACME.id)).kid).toBe(es)
  expect((await after.signer(ACME.id, 'RS256')).kid).toBe(done.kid)
})

describe('a key store', () => {
  const unknownKid = async (on: KeyStore) => {
    const forged = `${Buffer.from(
      JSON.stringify({ typ: 'at+jwt', alg: 'ES256', kid: 'A'.repeat(43) }),
    ).toString('base64url')}.e30.AAAA`
    return verifies(on, forged)
  }

  it('reads once for many at the same time, and not again while fresh', async () => {
    const before = db.statements()
    await Promise.all(Array.from({ length: 50 }, () => here.verifierKeys(ACME.id)))
    await here.signer(ACME.id)
    await here.jwks(ACME.id)
    expect(db.statements() - before).toBe(1)
  })

  it('is not made to read by a flood of unknown kids: at most once a second', async () => {
    await here.verifierKeys(ACME.id)
    const before = db.statements()
    for (let i = 0; i < 100; i++) expect(await unknownKid(here)).toBe(false)
    clock.forward(1)
    await Promise.all(Array.from({ length: 100 }, () => unknownKid(here)))
    for (let i = 0; i < 100; i++) expect(await unknownKid(here)).toBe(false)
    expect(db.statements() - before).toBe(1)
  })

  it('in an outage verifies for five minutes, signs for thirty seconds, and then does neither (I19)', async () => {
    let down = false
    const gone = () => Promise.reject(new Error('database down'))
    const frail: Db = {
      ...db,
      begin: (label, body) => (down ? gone() : db.begin(label, body)),
      alone: {
        orm: db.alone.orm,
        later: db.alone.later,
        committed: db.alone.committed,
        sql: (text, ...values) => (down ? gone() : db.alone.sql(text, ...values)),
      },
    }
    const keys = createKeyStore({ db: frail, clock, vault: undefined })
    const other = await issue(here)
    await issue(keys)
    down = true
    clock.forward(29)
    expect(await verifies(keys, other)).toBe(true)
    await expect(issue(keys)).resolves.toBeTypeOf('string')
    clock.forward(2)
    await expect(issue(keys)).rejects.toThrow('database down')
    await expect(keys.jwks(ACME.id)).rejects.toThrow('database down')
    clock.forward(200)
    expect(await verifies(keys, other)).toBe(true)
    clock.forward(100)
    await expect(verifies(keys, other)).rejects.toThrow('database down')
    down = false
    expect(await verifies(keys, other)).toBe(true)
  })

  it('takes a clock that was set back for a reason to read', async () => {
    await here.verifierKeys(ACME.id)
    const before = db.statements()
    clock.forward(-3600)
    await here.signer(ACME.id)
    expect(db.statements() - before).toBe(1)
  })

  it('has no signer for a tenant without keys', async () => {
    await expect(here.signer('ten_nobody' as typeof ACME.id)).rejects.toThrow('active ES256 key')
  })
})
