import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { assert } from '../core/assert.ts'
import { TOKEN_LIFE_SECONDS_MAX } from '../core/limits.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { CannotSeal, type Kept, keeping, opened, type SealedRow, sealedBy } from '../db/sealed.ts'
import { type Db, json, type Tx, withRead } from '../db/tx.ts'
import type { Clock, Vault } from '../ports.ts'

/**
 * The signing keys of each tenant, one active for each algorithm at any time, rotated while several instances serve:
 *
 *   next     published, so that every cache learns of it before anything is signed with it
 *   active   signs
 *   retired  stays published until every token that it signed is dead, then is dropped
 */
export const SIGNING_ALGS = ['ES256', 'RS256'] as const
export type SigningAlg = (typeof SIGNING_ALGS)[number]

/** `Cache-Control: max-age` of the JWKS. */
export const JWKS_MAX_AGE_SECONDS = 300
/** An instance reads a tenant's keys again after this long: what it signs with and publishes is never older. */
export const KEYS_FRESH_SECONDS = 30
const CLOCK_SKEW_SECONDS = 60
/** After this long every instance publishes a `next` key and every obedient cache has fetched it. */
export const NEXT_KEY_WAIT_SECONDS = JWKS_MAX_AGE_SECONDS + KEYS_FRESH_SECONDS + CLOCK_SKEW_SECONDS
/** Another instance may sign with a retired key until it reads again; the token then lives its full life. */
export const RETIRED_KEY_KEPT_SECONDS =
  TOKEN_LIFE_SECONDS_MAX + KEYS_FRESH_SECONDS + CLOCK_SKEW_SECONDS

/** Verification goes on with keys this old while the database cannot be read; then nothing verifies (I19). */
const VERIFIER_STALE_MS_MAX = 300_000
const FRESH_MS = KEYS_FRESH_SECONDS * 1000
/** Between two reads for the sake of an unknown key, which anybody can name. */
const COOLDOWN_MS = 1000
const TENANTS_HELD_MAX = 1000

const generate = promisify(generateKeyPair)

type Status = 'next' | 'active' | 'retired'
type KeyRow = {
  readonly kid: string
  readonly alg: SigningAlg
  readonly status: Status
  readonly public_jwk: JWK
} & Kept

const rowOf = (tenantId: TenantId, kid: string): SealedRow => ({
  kind: 'signing_key',
  tenantId,
  id: kid,
})

async function newPair(alg: SigningAlg): Promise<{ publicKey: KeyObject; privateKey: KeyObject }> {
  return alg === 'ES256'
    ? generate('ec', { namedCurve: 'P-256' })
    : generate('rsa', { modulusLength: 2048, publicExponent: 65_537 })
}

type NewKey = {
  readonly tenantId: TenantId
  /** In seconds. */
  readonly now: number
  /** Seals the private part. Without one it lies in clear, if no other does otherwise (`CannotSeal`). */
  readonly vault: Vault | undefined
}

/** Makes a key and returns its `kid`, the RFC 7638 thumbprint. */
async function insertKey(
  tx: Tx,
  key: NewKey & { readonly alg: SigningAlg; readonly status: Status },
): Promise<string> {
  const keep = await keeping(tx, key.vault)
  if (keep === null) throw new CannotSeal()
  const pair = await newPair(key.alg)
  const publicPart = pair.publicKey.export({ format: 'jwk' })
  const kid = await calculateJwkThumbprint(publicPart)
  const publicJwk = { ...publicPart, kid, alg: key.alg, use: 'sig' }
  const privateJwk = json(pair.privateKey.export({ format: 'jwk' }))
  const { sealed, clear } = keep(rowOf(key.tenantId, kid), privateJwk)
  await tx.sql`
    insert into signing_key (kid, tenant_id, alg, private_jwk, sealed_private_jwk, public_jwk, status, created_at)
    values (${kid}, ${key.tenantId}, ${key.alg}, ${clear}::text::jsonb, ${sealed},
      ${json(publicJwk)}::text::jsonb, ${key.status}, to_timestamp(${key.now}::float8))`
  return kid
}

/**
 * Gives a new tenant its first active keys, one ES256 and one RS256 (2048 bits, e = 65537).
 * A tenant that has them already makes the database refuse (`one_active_key_a_tenant_and_alg`).
 */
export async function createTenantKeys(tx: Tx, input: NewKey): Promise<void> {
  for (const alg of SIGNING_ALGS) await insertKey(tx, { ...input, alg, status: 'active' })
}

/**
 * `staged`: two calls, `NEXT_KEY_WAIT_SECONDS` apart; no verifier ever meets a key that it does not know.
 * `at_once`: one call; a verifier meets an unknown `kid` and fetches the JWKS again, as RFC 7517 clients do.
 * `leaked`: as `at_once`, and every other key of the algorithm is dropped, so its tokens die when caches turn over.
 */
export type RotationPace = 'staged' | 'at_once' | 'leaked'

/** `activeFrom` in seconds: when a later staged call will activate the key. */
export type Rotation =
  | { readonly stage: 'published'; readonly kid: string; readonly activeFrom: number }
  | { readonly stage: 'waiting'; readonly kid: string; readonly activeFrom: number }
  | { readonly stage: 'activated'; readonly kid: string; readonly replaced: string }

type LockedKey = { readonly kid: string; readonly status: Status; readonly created_at: number }

/** One rotation at a time for each tenant and algorithm. Not by row locks: `leaked` deletes the rows. */
async function lockKeys(tx: Tx, tenantId: TenantId, alg: SigningAlg): Promise<LockedKey[]> {
  const name = `signing_key ${tenantId} ${alg}`
  await tx.sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`
  return tx.sql<LockedKey>`
    select kid, status, extract(epoch from created_at)::float8 as created_at
    from signing_key where tenant_id = ${tenantId} and alg = ${alg}`
}

async function activate(tx: Tx, change: { from: string; to: string; now: number }): Promise<void> {
  // In this order: the database holds one active key for each tenant and algorithm.
  await tx.sql`update signing_key set status = 'retired', retired_at = to_timestamp(${change.now}::float8)
    where kid = ${change.from}`
  await tx.sql`update signing_key set status = 'active' where kid = ${change.to}`
}

/**
 * Takes the next step of a rotation of one tenant's key for one algorithm (`lend rotate-keys --tenant acme [--now]`)
 * and drops the tenant's retired keys whose tokens are all dead. Safe to call again, and from two places at once.
 * Throws if the tenant has no active key. One that no longer opens can be replaced so: its public part stays published.
 */
export async function rotateKeys(
  tx: Tx,
  input: NewKey & { readonly alg: SigningAlg; readonly pace?: RotationPace },
): Promise<Rotation> {
  const { tenantId, alg, now, vault, pace = 'staged' } = input
  const keys = await lockKeys(tx, tenantId, alg)
  const active = keys.find((key) => key.status === 'active')
  const next = keys.find((key) => key.status === 'next')
  assert(active !== undefined, `tenant ${tenantId} has an active ${alg} key`)
  const before = now - RETIRED_KEY_KEPT_SECONDS
  await tx.sql`delete from signing_key where tenant_id = ${tenantId} and status = 'retired'
    and retired_at < to_timestamp(${before}::float8)`
  if (pace === 'leaked') {
    await tx.sql`delete from signing_key where tenant_id = ${tenantId} and alg = ${alg}`
    const kid = await insertKey(tx, { tenantId, alg, status: 'active', now, vault })
    return { stage: 'activated', kid, replaced: active.kid }
  }
  const published =
    next?.kid ?? (await insertKey(tx, { tenantId, alg, status: 'next', now, vault }))
  const activeFrom = (next?.created_at ?? now) + NEXT_KEY_WAIT_SECONDS
  if (pace === 'staged' && now < activeFrom)
    return { stage: next === undefined ? 'published' : 'waiting', kid: published, activeFrom }
  await activate(tx, { from: active.kid, to: published, now })
  return { stage: 'activated', kid: published, replaced: active.kid }
}

/**
 * For a background job: finishes every staged rotation that is due, so that one `lend rotate-keys` is enough, and
 * drops the keys of every tenant that are out of use. `now` in seconds.
 */
export async function advanceKeys(
  tx: Tx,
  now: number,
): Promise<readonly { readonly tenantId: TenantId; readonly rotation: Rotation }[]> {
  const before = now - NEXT_KEY_WAIT_SECONDS
  const due = await tx.sql<{ tenant_id: TenantId; alg: SigningAlg }>`
    select tenant_id, alg from signing_key
    where status = 'next' and created_at <= to_timestamp(${before}::float8) order by tenant_id, alg`
  const done = []
  for (const { tenant_id: tenantId, alg } of due) {
    const keys = await lockKeys(tx, tenantId, alg)
    const active = keys.find((key) => key.status === 'active')
    // Another instance may have finished it before this one had the lock: then there is nothing to begin anew.
    const next = keys.find((key) => key.status === 'next' && key.created_at <= before)
    if (active === undefined || next === undefined) continue
    await activate(tx, { from: active.kid, to: next.kid, now })
    const rotation: Rotation = { stage: 'activated', kid: next.kid, replaced: active.kid }
    done.push({ tenantId, rotation })
  }
  await tx.sql`delete from signing_key where status = 'retired'
    and retired_at < to_timestamp(${now - RETIRED_KEY_KEPT_SECONDS}::float8)`
  return done
}

const keyRows = (tx: Tx, tenantId: TenantId): Promise<KeyRow[]> => tx.sql<KeyRow>`
  select kid, alg, status, sealed_private_jwk as sealed, private_jwk::text as clear, public_jwk from signing_key
  where tenant_id = ${tenantId} order by alg, created_at desc, kid`

export type Jwks = { readonly keys: readonly JWK[] }

/** The tenant's public keys (RFC 7517 section 5): next, active and retired ones, ES256 first. */
export async function jwksOf(tx: Tx, tenantId: TenantId): Promise<Jwks> {
  return { keys: (await keyRows(tx, tenantId)).map((row) => row.public_jwk) }
}

export type SigningKey = {
  readonly kid: string
  readonly alg: SigningAlg
  readonly privateKey: KeyObject
}
export type VerifierKey = {
  readonly kid: string
  readonly alg: SigningAlg
  readonly publicKey: KeyObject
}
export type VerifierKeys = ReadonlyMap<string, VerifierKey>

/** The tenant's active key was sealed with a key that is not here, or is not as it was sealed: nothing is signed. */
export class KeyShut extends Error {
  override readonly name = 'KeyShut'
  constructor(of: {
    readonly tenantId: TenantId
    readonly kid: string
    readonly sealedBy: string
  }) {
    super(
      `signing key ${of.kid} of tenant ${of.tenantId}, sealed with ${JSON.stringify(of.sealedBy)}, does not open here: put that key back into LEND_SECRET_KEYS; lend doctor says what else is shut`,
    )
  }
}

export type KeyStore = {
  /**
   * The active key, ES256 unless told otherwise; never read longer than `KEYS_FRESH_SECONDS` ago. Throws `KeyShut` when it does
   * not open; what verifies is there all the same.
   */
  readonly signer: (tenantId: TenantId, alg?: SigningAlg) => Promise<SigningKey>
  /**
   * What verifies the tenant's tokens, by `kid`, never read longer than `KEYS_FRESH_SECONDS` ago while the database
   * answers and never longer than five minutes ago. If `wanted` is not among them they are read again, at most once a
   * second for each tenant: only so does a key that another instance made active at once become known here.
   */
  readonly verifierKeys: (tenantId: TenantId, wanted?: string) => Promise<VerifierKeys>
  /** What `jwksOf` says, never read longer than `KEYS_FRESH_SECONDS` ago. */
  readonly jwks: (tenantId: TenantId) => Promise<Jwks>
}

export const verifierKey = (jwk: JWK, kid: string, alg: SigningAlg): VerifierKey => ({
  kid,
  alg,
  publicKey: createPublicKey({ key: jwk, format: 'jwk' }),
})

/** A key that signs, and what it was read from: it is opened once, however often it is read. */
type Signer = { readonly key: SigningKey; readonly from: string }
type Signers = ReadonlyMap<SigningAlg, Signer | KeyShut>

type TenantKeys = {
  readonly signers: Signers
  readonly verifiers: VerifierKeys
  readonly jwks: Jwks
  /** Milliseconds, when the read began: what was committed later may be missing. */
  readonly readAt: number
}

function signerOf(
  of: { readonly tenantId: TenantId; readonly vault: Vault | undefined },
  row: KeyRow,
  before: Signer | KeyShut | undefined,
): Signer | KeyShut {
  const { kid, alg } = row
  const from = row.sealed ?? row.clear ?? ''
  if (before !== undefined && 'from' in before && before.from === from && before.key.kid === kid)
    return before
  const text = opened(of.vault, rowOf(of.tenantId, kid), row)
  if (text === null) return new KeyShut({ ...of, kid, sealedBy: sealedBy(from) })
  const privateKey = createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
  return { key: { kid, alg, privateKey }, from }
}

function tenantKeys(
  rows: readonly KeyRow[],
  of: { readonly tenantId: TenantId; readonly vault: Vault | undefined; readonly readAt: number },
  before: Signers | undefined,
): TenantKeys {
  const signers = new Map<SigningAlg, Signer | KeyShut>()
  const verifiers = new Map<string, VerifierKey>()
  for (const row of rows) {
    const { kid, alg } = row
    verifiers.set(kid, verifierKey(row.public_jwk, kid, alg))
    if (row.status === 'active') signers.set(alg, signerOf(of, row, before?.get(alg)))
  }
  return { signers, verifiers, jwks: { keys: rows.map((r) => r.public_jwk) }, readAt: of.readAt }
}

/** The keys of the tenants in use, held in memory (at most 1000 tenants). One for each process. */
export function createKeyStore(on: {
  readonly db: Db
  readonly clock: Clock
  readonly vault: Vault | undefined
}): KeyStore {
  const held = new Map<TenantId, TenantKeys>()
  const reading = new Map<TenantId, Promise<TenantKeys>>()
  const triedAt = new Map<TenantId, number>()

  async function readKeys(tenantId: TenantId, startedAt: number): Promise<TenantKeys> {
    const rows = await withRead(on.db, 'load_keys', (tx) => keyRows(tx, tenantId))
    const of = { tenantId, vault: on.vault, readAt: startedAt }
    const keys = tenantKeys(rows, of, held.get(tenantId)?.signers)
    // A tenant in use is read again and again, so the first of the map is the one used least recently.
    held.delete(tenantId)
    held.set(tenantId, keys)
    for (const oldest of held.keys()) {
      if (held.size <= TENANTS_HELD_MAX) break
      held.delete(oldest)
      triedAt.delete(oldest)
    }
    return keys
  }

  function read(tenantId: TenantId): Promise<TenantKeys> {
    const already = reading.get(tenantId)
    if (already !== undefined) return already
    const startedAt = on.clock.now()
    triedAt.set(tenantId, startedAt)
    const started = readKeys(tenantId, startedAt).finally(() => reading.delete(tenantId))
    reading.set(tenantId, started)
    return started
  }

  /** A clock set back makes everything old, which costs a read and is safe. */
  const within = (since: number | undefined, ms: number): boolean => {
    const age = on.clock.now() - (since ?? Number.NEGATIVE_INFINITY)
    return age >= 0 && age < ms
  }

  async function fresh(tenantId: TenantId): Promise<TenantKeys> {
    const keys = held.get(tenantId)
    return keys !== undefined && within(keys.readAt, FRESH_MS) ? keys : read(tenantId)
  }

  async function verifiable(tenantId: TenantId): Promise<TenantKeys> {
    const keys = held.get(tenantId)
    if (keys === undefined || !within(keys.readAt, VERIFIER_STALE_MS_MAX)) return read(tenantId)
    const failedLately = within(triedAt.get(tenantId), COOLDOWN_MS) && !reading.has(tenantId)
    if (within(keys.readAt, FRESH_MS)) {
      // Read ahead, so that a busy tenant never waits; whether it worked shows when the keys are no longer fresh.
      if (!within(keys.readAt, FRESH_MS / 2) && !failedLately) read(tenantId).catch(() => undefined)
      return keys
    }
    return failedLately ? keys : read(tenantId).catch(() => keys)
  }

  return {
    signer: async (tenantId, alg = 'ES256') => {
      const signer = (await fresh(tenantId)).signers.get(alg)
      assert(signer !== undefined, `tenant ${tenantId} has an active ${alg} key`)
      if (signer instanceof KeyShut) throw signer
      return signer.key
    },
    verifierKeys: async (tenantId, wanted) => {
      const { verifiers } = await verifiable(tenantId)
      const known = wanted === undefined || verifiers.has(wanted)
      if (known || within(triedAt.get(tenantId), COOLDOWN_MS)) {
        const underWay = known ? undefined : reading.get(tenantId)
        return underWay === undefined ? verifiers : (await underWay).verifiers
      }
      return (await read(tenantId)).verifiers
    },
    jwks: async (tenantId) => (await fresh(tenantId)).jwks,
  }
}
