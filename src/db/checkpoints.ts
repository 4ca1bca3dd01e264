import { createHash } from 'node:crypto'
import { canonicalJson } from '../core/canonical-json.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { json, type Tx } from './tx.ts'

/** The head of one chain as a checkpoint anchors it. */
export type AnchoredHead = {
  readonly tenant_id: TenantId
  readonly chain: string
  readonly seq: number
  readonly hash: string
}

/** What a checkpoint vouches for of the months that went from the record with it. `before` is ISO 8601. */
export type Cut = {
  /** All records of earlier times are gone. */
  readonly before: string
  /** The last records that went of chains that go on, or that a later checkpoint names. */
  readonly heads: readonly AnchoredHead[]
  readonly root: string
}

/** What a checkpoint's signature is over. `at` is ISO 8601 with milliseconds. */
export type CheckpointClaims = {
  readonly n: number
  readonly at: string
  /** SHA-256 of the previous checkpoint's JWS, in hex; empty for the first. */
  readonly prev_hash: string
  readonly root: string
  readonly heads: number
  /** All records of transactions below this number are anchored by now. Decimal text. */
  readonly upto: string
  /** Only where months went. */
  readonly cut?: { readonly before: string; readonly root: string; readonly heads: number }
}

export type Checkpoint = Omit<CheckpointClaims, 'heads' | 'cut'> & {
  readonly heads: readonly AnchoredHead[]
  readonly cut: Cut | null
  readonly public_jwk: { readonly [name: string]: unknown }
  readonly jws: string
}

const sha256 = (...parts: readonly (string | Buffer)[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

export const sha256Hex = (text: string): string => sha256(text).toString('hex')

const LEAF = Buffer.from([0])
const NODE = Buffer.from([1])

/** Merkle tree hash as in RFC 9162 section 2.1.1, in hex, over heads sorted by chain. */
export function merkleRoot(heads: readonly AnchoredHead[]): string {
  const sorted = [...heads].sort((a, b) => (a.chain < b.chain ? -1 : a.chain > b.chain ? 1 : 0))
  let level = sorted.map((head) => sha256(LEAF, canonicalJson(head)))
  if (level.length === 0) return sha256('').toString('hex')
  while (level.length > 1) {
    const next: Buffer[] = []
    for (let i = 0; i < level.length; i += 2) {
      const [left, right] = [level[i], level[i + 1]]
      // A last one without a partner goes up as it is: the same tree as splitting at the largest power of two.
      if (left !== undefined) next.push(right === undefined ? left : sha256(NODE, left, right))
    }
    level = next
  }
  return level[0]?.toString('hex') ?? ''
}

/** One writer at a time on the whole deployment: the chain of checkpoints cannot fork. */
export async function lockCheckpoints(tx: Tx): Promise<void> {
  await tx.sql`select pg_advisory_xact_lock(hashtextextended('lend:checkpoint', 0))`
}

/** After checkpoint `after`, in order. Times as ISO 8601. */
export const selectCheckpoints = (
  tx: Tx,
  of: { readonly after: number; readonly limit: number },
): Promise<readonly Checkpoint[]> => tx.sql<Checkpoint>`
  select n, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, prev_hash, heads, root,
    public_jwk, jws, upto::text, cut
  from activity_checkpoint where n > ${of.after} order by n limit ${of.limit}`

export async function lastCheckpoint(
  tx: Tx,
): Promise<Pick<Checkpoint, 'n' | 'at' | 'jws' | 'upto' | 'heads'> | null> {
  const [row] = await tx.sql<Pick<Checkpoint, 'n' | 'at' | 'jws' | 'upto' | 'heads'>>`
    select n, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, jws, upto::text, heads
    from activity_checkpoint order by n desc limit 1`
  return row ?? null
}

/** The newest cut of the record, as it stands; null: everything is still there. */
export async function lastCut(tx: Tx): Promise<Cut | null> {
  const [row] = await tx.sql<{ cut: Cut }>`
    select cut from activity_checkpoint where cut is not null order by n desc limit 1`
  return row?.cut ?? null
}

/**
 * Heads of chains that grew since a place, and the place up to which this looked. A record of a transaction that was still
 * running then is below no later place, so none is skipped. `since` (seconds) only spares reading the whole table: it must
 * be older than any transaction that can still be running. A place that lies ahead is another server's, from before a restore.
 */
export async function movedHeads(
  tx: Tx,
  of: { readonly upto: string; readonly since: number },
): Promise<{ readonly heads: readonly AnchoredHead[]; readonly upto: string }> {
  // The place comes first: what commits between the two statements is then anchored twice, never not at all.
  const [place] = await tx.sql<{ upto: string }>`
    select pg_snapshot_xmin(pg_current_snapshot())::text as upto`
  const upto = place?.upto ?? of.upto
  const from = BigInt(of.upto) > BigInt(upto) ? '0' : of.upto
  const heads = await tx.sql<AnchoredHead>`
    with moved as (
      select distinct a.chain, a.tenant_id from activity a
      where a.at >= to_timestamp(${of.since}::float8) and a.xid >= ${from}::text::xid8)
    select m.tenant_id, m.chain, coalesce(s.chain_seq, t.seq) as seq, coalesce(s.chain_hash, t.hash) as hash
    from moved m
    left join session s on s.id = m.chain
    left join tenant_chain t on t.tenant_id = m.chain
    where coalesce(s.chain_seq, t.seq) is not null
    order by m.chain`
  return { heads, upto }
}

export async function insertCheckpoint(tx: Tx, c: Checkpoint): Promise<void> {
  await tx.sql`
    insert into activity_checkpoint (n, at, prev_hash, heads, root, public_jwk, jws, upto, cut)
    values (${c.n}, ${c.at}::text::timestamptz, ${c.prev_hash}, ${json(c.heads)}::text::jsonb, ${c.root},
      ${json(c.public_jwk)}::text::jsonb, ${c.jws}, ${c.upto}::text::bigint,
      ${c.cut === null ? null : json(c.cut)}::text::jsonb)`
}

/** Of these heads, the ones whose record is no longer there with that hash. */
export const missingHeads = (
  tx: Tx,
  heads: readonly AnchoredHead[],
): Promise<readonly { readonly chain: string; readonly seq: number }[]> => tx.sql<{
  chain: string
  seq: number
}>`
  select h.chain, h.seq
  from jsonb_to_recordset(${json(heads)}::text::jsonb) as h (chain text, seq integer, hash text)
  where not exists (
    select from activity a where a.chain = h.chain and a.seq = h.seq and a.hash = h.hash)
  order by h.chain, h.seq`
