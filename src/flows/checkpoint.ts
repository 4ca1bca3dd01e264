import { CompactSign, calculateJwkThumbprint, compactVerify, importJWK, type JWK } from 'jose'
import { assert } from '../core/assert.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import {
  type Checkpoint,
  type CheckpointClaims,
  type Cut,
  insertCheckpoint,
  lastCheckpoint,
  lockCheckpoints,
  merkleRoot,
  movedHeads,
  sha256Hex,
} from '../db/checkpoints.ts'
import { type Tx, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import { secondsNow } from './live.ts'
import { type Job, startPeriodic } from './periodic.ts'

/** A private EC P-256 key. */
export type CheckpointKey = JWK

const ALG = 'ES256'
const TYPE = 'lend-checkpoint+json'
/** No transaction of ours lasts nearly this long, and no two clocks differ by it. */
export const SLACK_SECONDS = 3600
const EVERY_MILLIS = 60_000
/** Of two instances whose jobs run in turn, the second has little to add. */
const GAP_SECONDS = 30

/** The part of an EC key that anyone may see. */
export const publicPart = ({ kty, crv, x, y }: JWK): JWK => ({
  ...(kty === undefined ? {} : { kty }),
  ...(crv === undefined ? {} : { crv }),
  ...(x === undefined ? {} : { x }),
  ...(y === undefined ? {} : { y }),
})

const claimsOf = (c: Omit<Checkpoint, 'jws' | 'public_jwk'>): CheckpointClaims => ({
  n: c.n,
  at: c.at,
  prev_hash: c.prev_hash,
  root: c.root,
  heads: c.heads.length,
  upto: c.upto,
  ...(c.cut === null
    ? {}
    : { cut: { before: c.cut.before, root: c.cut.root, heads: c.cut.heads.length } }),
})

async function signed(claims: CheckpointClaims, key: JWK): Promise<string> {
  const kid = await calculateJwkThumbprint(publicPart(key))
  return new CompactSign(new TextEncoder().encode(canonicalJson(claims)))
    .setProtectedHeader({ alg: ALG, typ: TYPE, kid })
    .sign(await importJWK(key, ALG))
}

/**
 * Anchors the heads of all chains that grew since the last checkpoint (SPEC section 11): a Merkle root over them and the
 * last checkpoint's hash, signed with a key that is kept outside the database. Nothing grew: nothing is written. One at a
 * time on the whole deployment, and the number is the primary key, so checkpoints do not fork. Returns its number.
 */
export async function makeCheckpoint(
  ctx: Ctx,
  key: JWK,
  gapSeconds: number = GAP_SECONDS,
): Promise<number | null> {
  return withTx(ctx.db, 'checkpoint', async (tx) => {
    await lockCheckpoints(tx)
    const last = await lastCheckpoint(tx)
    // A time to come is of a clock that was wrong: it is not waited for.
    if (last !== null && Math.abs(secondsNow(ctx.clock) - Date.parse(last.at) / 1000) < gapSeconds)
      return null
    return writeCheckpoint(ctx, tx, { key, last, cut: null })
  })
}

/** Under the lock of checkpoints. Null: there is nothing to anchor, and nothing was written. */
export async function writeCheckpoint(
  ctx: Ctx,
  tx: Tx,
  of: {
    readonly key: JWK
    readonly last: Awaited<ReturnType<typeof lastCheckpoint>>
    readonly cut: Cut | null
  },
): Promise<number | null> {
  const { key, last, cut } = of
  const since =
    last === null ? 0 : Math.min(Date.parse(last.at) / 1000, secondsNow(ctx.clock)) - SLACK_SECONDS
  const moved = await movedHeads(tx, { upto: last?.upto ?? '0', since })
  // A long transaction anywhere holds the place back, so that heads come again; these were anchored last time.
  const known = new Set(last?.heads.map(canonicalJson))
  const heads = moved.heads.filter((head) => !known.has(canonicalJson(head)))
  if (heads.length === 0 && cut === null) return null
  const checkpoint = {
    n: (last?.n ?? 0) + 1,
    at: new Date(ctx.clock.now()).toISOString(),
    prev_hash: last === null ? '' : sha256Hex(last.jws),
    heads,
    root: merkleRoot(heads),
    upto: moved.upto,
    cut,
  }
  const jws = await signed(claimsOf(checkpoint), key)
  await insertCheckpoint(tx, { ...checkpoint, public_jwk: { ...publicPart(key) }, jws })
  return checkpoint.n
}

export const CHECKPOINT_PROBLEMS = [
  'checkpoint_missing',
  'checkpoint_unlinked',
  'checkpoint_altered',
  'checkpoint_key_unknown',
] as const

/**
 * What is wrong with a checkpoint in itself, given the one before it; null if nothing is. `trusted`: thumbprints of the
 * keys it may be signed with; null accepts the key that stands beside it, which proves only that it is of one piece.
 */
export async function checkpointProblem(
  checkpoint: Checkpoint,
  before: Pick<Checkpoint, 'n' | 'jws'> | null,
  trusted: ReadonlySet<string> | null,
): Promise<(typeof CHECKPOINT_PROBLEMS)[number] | null> {
  if (checkpoint.n !== (before?.n ?? 0) + 1) return 'checkpoint_missing'
  if (checkpoint.prev_hash !== (before === null ? '' : sha256Hex(before.jws)))
    return 'checkpoint_unlinked'
  const jwk: JWK = { ...checkpoint.public_jwk }
  try {
    const key = await importJWK(publicPart(jwk), ALG)
    const { payload, protectedHeader } = await compactVerify(checkpoint.jws, key, {
      algorithms: [ALG],
    })
    assert(protectedHeader.typ === TYPE, 'it is a checkpoint')
    if (new TextDecoder().decode(payload) !== canonicalJson(claimsOf(checkpoint)))
      return 'checkpoint_altered'
  } catch {
    return 'checkpoint_altered'
  }
  if (merkleRoot(checkpoint.heads) !== checkpoint.root) return 'checkpoint_altered'
  const { cut } = checkpoint
  if (cut !== null && merkleRoot(cut.heads) !== cut.root) return 'checkpoint_altered'
  if (trusted !== null && !trusted.has(await calculateJwkThumbprint(publicPart(jwk))))
    return 'checkpoint_key_unknown'
  return null
}

export const thumbprintOf = (jwk: JWK): Promise<string> => calculateJwkThumbprint(publicPart(jwk))

/** Makes a checkpoint every minute. `key` is a private EC P-256 JWK. Errors go to `onBug`. */
export const startCheckpointJob = (
  ctx: Ctx,
  key: JWK,
  onBug: (error: unknown) => void,
  everyMillis = EVERY_MILLIS,
): Job => startPeriodic({ run: () => makeCheckpoint(ctx, key), everyMillis, onBug })
