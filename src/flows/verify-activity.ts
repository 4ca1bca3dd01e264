import type { JWK } from 'jose'
import { type ActivityRecord, CHAIN_START, type ChainHead } from '../core/activity.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { hashOf } from '../db/activity.ts'
import {
  type ChainPlace,
  type ChainRow,
  selectOrphans,
  selectSessionChains,
  selectTenantChain,
} from '../db/activity-read.ts'
import {
  type AnchoredHead,
  type Checkpoint,
  type Cut,
  lastCut,
  missingHeads,
  selectCheckpoints,
} from '../db/checkpoints.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'
import {
  type CHECKPOINT_PROBLEMS,
  checkpointProblem,
  SLACK_SECONDS,
  thumbprintOf,
} from './checkpoint.ts'

/** What can be wrong with a record. A closed list; each means that somebody changed what was written. */
export const RECORD_PROBLEMS = [
  /** Its hash is not that of its contents. */
  'altered',
  /** It does not name the hash of the record before it. */
  'unlinked',
  /** One or more records before it are not there, and no signed cut says that they went with their months. */
  'missing_before',
  /** Its number came already. */
  'out_of_order',
  /** The chain goes on, by what its session or tenant says, and its last records are not there. */
  'missing_after',
  /** The chain is longer than its session or tenant says, or ends otherwise. */
  'beyond_head',
  /** The row of its session or tenant, which names the head of its chain, is not there. */
  'no_head',
  /** A signed checkpoint names a record that is not there, or not so. */
  'anchored_missing',
] as const

export type Problem = {
  readonly chain: string
  readonly seq: number
  /** Absent when it is the record that is missing. */
  readonly id?: string
  readonly problem: (typeof RECORD_PROBLEMS)[number] | (typeof CHECKPOINT_PROBLEMS)[number]
}

export type Verified = {
  readonly ok: boolean
  readonly chains: number
  readonly records: number
  /** The first of them; `ok` is false even if they are more than are listed. */
  readonly problems: readonly Problem[]
}

const PROBLEMS_MAX = 200

type How = {
  /** An extract: records may be left out, so that gaps prove nothing. Each record alone is still checked. */
  readonly extract?: boolean
  /** Months went from the record before this time, in seconds. What it says is vouched for by a checkpoint or not at all. */
  readonly cutBefore?: number
}

/** Checks records as they come: any number of chains side by side, each in its own order. */
export class ChainVerifier {
  readonly #heads = new Map<string, ChainHead>()
  readonly #how: How
  /** Chains whose first record here is not their first, by what it names as the one before. */
  readonly #begins = new Map<string, { readonly at: Omit<Problem, 'problem'>; before: ChainHead }>()
  readonly problems: Problem[] = []
  #ok = true
  #chains = 0
  #records = 0

  constructor(how: How = {}) {
    this.#how = how
  }

  report(problem: Problem): void {
    this.#ok = false
    if (this.problems.length < PROBLEMS_MAX) this.problems.push(problem)
  }

  add(record: ActivityRecord): void {
    const chain = record.session_id ?? record.tenant_id
    const known = this.#heads.get(chain)
    const head = known ?? CHAIN_START
    if (known === undefined) this.#chains++
    this.#records++
    const at = { chain, seq: record.seq, id: record.id }
    const { hash, ...rest } = record
    if (hashOf(rest) !== hash) this.report({ ...at, problem: 'altered' })
    if (record.seq <= head.seq) {
      this.report({ ...at, problem: 'out_of_order' })
      return
    }
    if (record.seq > head.seq + 1) {
      if (known === undefined && this.#how.cutBefore !== undefined)
        this.#begins.set(chain, { at, before: { seq: record.seq - 1, hash: record.prev_hash } })
      else if (!this.#how.extract) this.report({ ...at, problem: 'missing_before' })
    } else if (record.prev_hash !== head.hash) this.report({ ...at, problem: 'unlinked' })
    this.#heads.set(chain, { seq: record.seq, hash })
  }

  /** A signed checkpoint names this record: a chain may begin right after it. */
  vouched({ chain, seq, hash }: AnchoredHead): void {
    const begin = this.#begins.get(chain)?.before
    if (begin?.seq === seq && begin.hash === hash) this.#begins.delete(chain)
  }

  /** All that is signed has been seen. */
  finish(): void {
    for (const { at } of this.#begins.values()) this.report({ ...at, problem: 'missing_before' })
    this.#begins.clear()
  }

  /** The chain is over: its last record must be the one that its session or tenant names. */
  close({ chain, head, since }: Pick<ChainRow, 'chain' | 'head' | 'since'>): void {
    const last = this.#heads.get(chain)
    this.#heads.delete(chain)
    if (last === undefined) this.#chains++
    // All of it may have gone; had any of it been written since, a checkpoint would name it.
    if (last === undefined && since < (this.#how.cutBefore ?? 0)) return
    const { seq, hash } = last ?? CHAIN_START
    if (seq < head.seq) this.report({ chain, seq: head.seq, problem: 'missing_after' })
    else if (seq > head.seq || hash !== head.hash)
      this.report({ chain, seq, problem: 'beyond_head' })
  }

  result(): Verified {
    return {
      ok: this.#ok,
      chains: this.#chains,
      records: this.#records,
      problems: this.problems,
    }
  }
}

/**
 * Verifies records offline, in the order of an export. Pure. A chain's tail that was cut off does not show in the records
 * alone; the database's heads and the checkpoints show it.
 */
export function verifyRecords(records: Iterable<ActivityRecord>, how: How = {}): Verified {
  const verifier = new ChainVerifier(how)
  for (const record of records) verifier.add(record)
  return verifier.result()
}

const ROWS_A_PAGE = 1000
const CHAINS_A_PAGE = 200

async function verifyTenantChain(ctx: Pick<Ctx, 'db'>, tenantId: TenantId, into: ChainVerifier) {
  let afterSeq = 0
  for (;;) {
    const page = { tenantId, afterSeq, limit: ROWS_A_PAGE }
    const rows = await withTx(ctx.db, 'verify_activity', (tx) => selectTenantChain(tx, page))
    for (const { record } of rows) if (record !== null) into.add(record)
    const last = rows.at(-1)
    if (last === undefined) return into.report({ chain: tenantId, seq: 0, problem: 'no_head' })
    if (rows.length < ROWS_A_PAGE) return into.close(last)
    afterSeq = last.record?.seq ?? afterSeq
  }
}

/** Adds a page and closes every chain that is over by the end of it. A full page may have cut its last chain. */
function addPage(rows: readonly ChainRow[], full: boolean, into: ChainVerifier): ChainPlace | null {
  for (const [i, row] of rows.entries()) {
    if (row.record !== null) into.add(row.record)
    const next = rows[i + 1]
    const goesOn = next === undefined ? full : next.chain === row.chain
    if (!goesOn) into.close(row)
  }
  const last = rows.at(-1)
  if (last === undefined) return null
  return { chain: last.chain, seq: last.record?.seq ?? 0, within: full }
}

async function verifySessionChains(
  ctx: Pick<Ctx, 'db'>,
  of: { readonly tenantId: TenantId; readonly session: string | null },
  into: ChainVerifier,
) {
  let after: ChainPlace = { chain: '', seq: 0, within: false }
  for (;;) {
    const page = { ...of, after, chains: CHAINS_A_PAGE, limit: ROWS_A_PAGE }
    const rows = await withTx(ctx.db, 'verify_activity', (tx) => selectSessionChains(tx, page))
    const full = rows.length === ROWS_A_PAGE
    const last = addPage(rows, full, into)
    const begun = new Set(rows.map((row) => row.chain)).size
    if (last === null || (!full && begun < CHAINS_A_PAGE)) return
    after = last
  }
}

const CHECKPOINTS_A_PAGE = 20

/**
 * Whether what a checkpoint anchored must still be there after a cut. `anchoredAt` is ISO 8601. The cut excuses what was
 * anchored before it, and the very head that it names. A chain that stood below that head later on was not past it when the
 * month ended, whatever the cut says: so a record that was put in to be signed excuses nothing.
 */
function staysAfter(cut: Cut | null): (head: AnchoredHead, anchoredAt: string) => boolean {
  if (cut === null) return () => true
  const gone = new Map(cut.heads.map((head) => [head.chain, head]))
  const ended = new Date(Date.parse(cut.before) + SLACK_SECONDS * 1000).toISOString()
  return (head, anchoredAt) => {
    const last = gone.get(head.chain)
    if (last === undefined) return anchoredAt >= cut.before
    if (head.seq === last.seq && head.hash === last.hash) return false
    return head.seq > last.seq || anchoredAt >= ended
  }
}

export type LastCheckpoint = {
  readonly n: number
  readonly at: string
  readonly root: string
  /** RFC 7638 thumbprint of the key that signed it: compare it with one kept elsewhere. */
  readonly key: string
  readonly public_jwk: JWK
}

/** Every checkpoint in itself, and that what it anchors of this tenant is still there. */
async function verifyCheckpoints(
  ctx: Pick<Ctx, 'db'>,
  of: {
    readonly tenantId: TenantId
    readonly session: string | null
    readonly trusted: ReadonlySet<string> | null
    readonly cut: Cut | null
  },
  into: ChainVerifier,
): Promise<LastCheckpoint | null> {
  const stays = staysAfter(of.cut)
  let before: Checkpoint | null = null
  for (;;) {
    const page: { after: number; limit: number } = {
      after: before?.n ?? 0,
      limit: CHECKPOINTS_A_PAGE,
    }
    const list: readonly Checkpoint[] = await withTx(ctx.db, 'verify_checkpoints', (tx) =>
      selectCheckpoints(tx, page),
    )
    for (const one of list) {
      const problem = await checkpointProblem(one, before, of.trusted)
      if (problem !== null) into.report({ chain: 'checkpoint', seq: one.n, problem })
      before = one
    }
    const own = (h: AnchoredHead) =>
      h.tenant_id === of.tenantId && (of.session ?? h.chain) === h.chain
    for (const one of list)
      for (const head of [...one.heads, ...(one.cut?.heads ?? [])])
        if (own(head)) into.vouched(head)
    const heads = list.flatMap((one) =>
      one.heads.filter((head) => own(head) && stays(head, one.at)),
    )
    const missing = await withTx(ctx.db, 'verify_heads', (tx) => missingHeads(tx, heads))
    for (const head of missing) into.report({ ...head, problem: 'anchored_missing' })
    if (list.length < CHECKPOINTS_A_PAGE) break
  }
  if (before === null) return null
  const { n, at, root } = before
  const public_jwk: JWK = { ...before.public_jwk }
  return { n, at, root, key: await thumbprintOf(public_jwk), public_jwk }
}

export type Verification = Verified & {
  readonly checkpoint?: LastCheckpoint
  /** Records of earlier times went with their months (ISO 8601); absent: all are there. */
  readonly cut_before?: string
}

/**
 * Recomputes the chains of a tenant, or of one session, from the database (SPEC section 11): no gap, every link, every
 * hash, each chain's head, and everything that a signed checkpoint anchors. Read in pages; a chain that grows meanwhile is
 * not a problem. `trusted`: thumbprints of the keys that checkpoints may be signed with.
 */
export async function verifyActivity(
  ctx: Pick<Ctx, 'db'>,
  of: {
    readonly tenantId: TenantId
    readonly session?: string | undefined
    readonly trusted?: readonly string[] | undefined
  },
): Promise<Verification> {
  const cut = await withTx(ctx.db, 'verify_cut', lastCut)
  const cutBefore = cut === null ? undefined : Date.parse(cut.before) / 1000
  const verifier = new ChainVerifier(cutBefore === undefined ? {} : { cutBefore })
  const { tenantId } = of
  const session = of.session ?? null
  if (session === null) {
    await verifyTenantChain(ctx, tenantId, verifier)
    const orphans = await withTx(ctx.db, 'verify_orphans', (tx) =>
      selectOrphans(tx, tenantId, PROBLEMS_MAX),
    )
    for (const orphan of orphans) verifier.report({ ...orphan, problem: 'no_head' })
  }
  await verifySessionChains(ctx, { tenantId, session }, verifier)
  const trusted = of.trusted === undefined ? null : new Set(of.trusted)
  const checkpoint = await verifyCheckpoints(ctx, { tenantId, session, trusted, cut }, verifier)
  verifier.finish()
  return {
    ...verifier.result(),
    ...(checkpoint === null ? {} : { checkpoint }),
    ...(cut === null ? {} : { cut_before: cut.before }),
  }
}
