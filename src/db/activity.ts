import { hash } from 'node:crypto'
import {
  type ActivityRecord,
  type ActivityType,
  CHAIN_START,
  type ChainHead,
} from '../core/activity.ts'
import { assert } from '../core/assert.ts'
import { canonicalJson } from '../core/canonical-json.ts'
import type { SessionId, TenantId, UserId } from '../core/vocabulary.ts'
import type { Ctx } from '../ports.ts'
import { insertSessions, type NewSession } from './sessions.ts'
import { json, type Tx } from './tx.ts'

/** The hash of a record: SHA-256 over the canonical JSON of everything but the hash itself, in hex. */
export const hashOf = (record: Omit<ActivityRecord, 'hash'>): string =>
  hash('sha256', canonicalJson(record))

/** Whose chain a record goes on, and whom it names (I12). */
export type Subject = {
  readonly id: SessionId
  readonly rootId: SessionId
  readonly agentId: string
  readonly userId: UserId
  /** `renewal-briefs@3` */
  readonly template: string
  readonly head: ChainHead
}

/** Names for a record that belongs to no session. */
export type Loose = {
  readonly agentId?: string
  readonly userId?: string
  readonly template?: string
}

/**
 * Collects the records of one transaction and writes them in the same commit as the change (I12): one statement for the
 * sessions' chains, whose heads were read under the root session's lock, and one for the tenant's own chain.
 */
export class Journal {
  readonly #ctx: Pick<Ctx, 'clock' | 'ids' | 'observe'>
  readonly #tenantId: TenantId
  readonly #heads = new Map<string, ChainHead>()
  /** Chains whose heads are not written yet. */
  readonly #moved = new Set<string>()
  readonly #records: (ActivityRecord & { chain: string })[] = []
  readonly #opened: NewSession[] = []
  readonly #charges = new Map<string, readonly number[]>()
  readonly #loose: { type: ActivityType; data: object; names: Loose }[] = []

  constructor(ctx: Pick<Ctx, 'clock' | 'ids' | 'observe'>, tenantId: TenantId) {
    this.#ctx = ctx
    this.#tenantId = tenantId
  }

  /** A record on a session's chain. The caller holds the lock of the session's root. */
  session(subject: Subject, type: ActivityType, data: { readonly [key: string]: unknown }): void {
    const head = this.#heads.get(subject.id) ?? subject.head
    this.#add(subject.id, head, type, data, {
      agent_id: subject.agentId,
      user_id: subject.userId,
      session_id: subject.id,
      root_session_id: subject.rootId,
      template: subject.template,
    })
  }

  /** A session that is written together with its first records, so that its chain's head needs no second look. */
  opens(session: NewSession): void {
    this.#opened.push(session)
  }

  /** What a call costs its root session: the times of its last minute's calls (SPEC section 3), in seconds. */
  charge(rootId: SessionId, times: readonly number[]): void {
    this.#charges.set(rootId, times)
  }

  /** A record on the tenant's chain, for what happens outside any session. */
  tenant(type: ActivityType, data: { readonly [key: string]: unknown }, names: Loose = {}): void {
    this.#loose.push({ type, data, names })
  }

  #add(
    chain: string,
    head: ChainHead,
    type: ActivityType,
    data: { readonly [key: string]: unknown },
    names: Partial<ActivityRecord>,
  ): void {
    const unhashed = {
      id: this.#ctx.ids.id('activity'),
      tenant_id: this.#tenantId,
      seq: head.seq + 1,
      at: new Date(this.#ctx.clock.now()).toISOString(),
      type,
      ...names,
      // What is hashed is what comes back from the database: JSON, without undefined members.
      data: JSON.parse(JSON.stringify(data)),
      prev_hash: head.hash,
    }
    const hash = hashOf(unhashed)
    this.#records.push({ ...unhashed, hash, chain })
    this.#heads.set(chain, { seq: unhashed.seq, hash })
    this.#moved.add(chain)
  }

  async write(tx: Tx): Promise<void> {
    if (this.#loose.length > 0) {
      // The row lock serialises the tenant's writers; it is taken last, so it is held briefly.
      const [head] = await tx.sql<ChainHead>`
        select seq, hash from tenant_chain where tenant_id = ${this.#tenantId} for update`
      assert(head, `tenant ${this.#tenantId} has a chain`)
      this.#heads.set(this.#tenantId, head)
      for (const { type, data, names } of this.#loose.splice(0)) {
        this.#add(
          this.#tenantId,
          this.#heads.get(this.#tenantId) ?? CHAIN_START,
          type,
          { ...data },
          {
            ...(names.agentId === undefined ? {} : { agent_id: names.agentId }),
            ...(names.userId === undefined ? {} : { user_id: names.userId }),
            ...(names.template === undefined ? {} : { template: names.template }),
          },
        )
      }
      const moved = this.#heads.get(this.#tenantId)
      assert(moved, 'the chain moved')
      tx.later`update tenant_chain set seq = ${moved.seq}, hash = ${moved.hash}
        where tenant_id = ${this.#tenantId}`
      this.#heads.delete(this.#tenantId)
      this.#moved.delete(this.#tenantId)
    }
    if (this.#records.length === 0) return this.#moveHeads(tx)
    const opened = this.#opened.splice(0)
    insertSessions(
      tx,
      opened.map((session) => ({ session, head: this.#heads.get(session.id) })),
    )
    for (const session of opened) this.#moved.delete(session.id)
    this.#moveHeads(tx)
    const records = this.#records.splice(0)
    this.#tell(tx, records)
    tx.later`
      insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id,
        root_session_id, template, data, prev_hash, hash)
      select id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id,
        root_session_id, template, data, prev_hash, hash
      from jsonb_to_recordset(${json(records)}::text::jsonb) as r (id text, tenant_id text, chain text,
        seq integer, at timestamptz, type text, agent_id text, user_id text, session_id text,
        root_session_id text, template text, data jsonb, prev_hash text, hash text)
      order by chain, seq`
  }

  /** Decisions are counted once they are committed: a transaction that is tried again decides anew. */
  #tell(tx: Tx, records: readonly ActivityRecord[]): void {
    const { observe } = this.#ctx
    if (observe === undefined) return
    const decided = records.filter(({ type }) => type === 'access.decided')
    if (decided.length === 0) return
    tx.committed(() => {
      for (const { data } of decided)
        observe.decided(String(data.outcome), String(data.reason), String(data.decided_by))
    })
  }

  /** Heads and charges in one statement: a session's row is written once. */
  #moveHeads(tx: Tx): void {
    const ids = [...new Set([...this.#moved, ...this.#charges.keys()])]
    if (ids.length === 0) return
    const rows = ids.map((id) => ({ id, ...this.#heads.get(id), times: this.#charges.get(id) }))
    this.#moved.clear()
    this.#charges.clear()
    // By its key first: Postgres guesses too many rows of a set that it has not seen, and would read every session.
    tx.later`
      update session s set chain_seq = coalesce(h.seq, s.chain_seq), chain_hash = coalesce(h.hash, s.chain_hash),
        request_times = coalesce(h.times, s.request_times)
      from jsonb_to_recordset(${json(rows)}::text::jsonb) as h (id text, seq integer, hash text, times float8[])
      where s.id = any(${ids}::text[]) and s.id = h.id`
  }
}
