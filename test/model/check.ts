import assert from 'node:assert/strict'
import { type ActivityRow, type Head, hashOf, keyOf, type Rows, rowKey, START } from './real.ts'
import { covers, rootOf } from './reference.ts'
import type { Both } from './run.ts'
import { templateId, USERS } from './universe.ts'

/** What was seen before the step, and what the step said to an agent. */
export type Seen = {
  readonly before: Rows
  readonly versions: readonly number[]
  readonly results: readonly unknown[]
}

/** Everything that SPEC section 10 says of a state, and that the state is the model's. */
export function check(both: Both, seen: Seen): void {
  const unread = both.real.unread.splice(0)
  agrees(both)
  versionsRise(both, seen)
  walls(both)
  told(both)
  tree(both)
  records(both, unread)
  assert.equal(both.real.rows.orphans, 0, 'I5: no grant outlives its session')
  if (seen.before.other !== '')
    assert.equal(both.real.rows.other, seen.before.other, 'I17: nothing of another tenant changed')
  secrets(both, seen, unread)
}

/** The two states, each written out as sorted lines. */
function agrees({ model, real }: Both): void {
  const at = (t: number | null) => (t === null || t === Number.POSITIVE_INFINITY ? '-' : t)
  const since = (t: number | null) => (t === null ? '-' : t - START)
  const n = (id: string | null) => (id === null ? '-' : real.sessions.indexOf(id))
  const ours = [
    ...model.sessions.flatMap((s) => [
      `s${s.n} of ${s.parent?.n ?? '-'} for ${USERS[s.user]} on ${templateId(s.template)}@${s.templateVersion} ${s.status} ${s.why ?? '-'} ${s.mode} until ${at(s.modeEnds)} ${s.readOnly ? 'reads' : 'all'} ${s.claimed ? 'claimed' : 'new'} ends ${s.ends}`,
      ...s.grants.map(
        (g) =>
          `s${s.n} holds ${keyOf(g.item)} by ${g.source} ${g.readOnly ? 'reads' : 'all'} ${g.sensitive ? 'sensitive' : 'plain'}`,
      ),
    ]),
    ...model.asks.flatMap((a) =>
      a.items.map(
        (i, at) =>
          `r${a.n}.${at} s${a.session.n} ${keyOf(i.item)} ${i.outcome} ${i.reason} asked ${i.asked ?? '-'} ${i.sensitive ? 'sensitive' : 'plain'} ends ${a.ends}`,
      ),
    ),
    ...model.rules.map(
      (r) =>
        `${USERS[r.user]} ${r.effect} ${keyOf(r.item)} for ${templateId(r.template)} ${r.suspended ? 'suspended' : 'active'} until ${at(r.ends)}`,
    ),
    `frozen ${model.frozen.size}`,
  ]
  const { rows } = real
  const position = new Map<string, number>()
  const theirs = [
    ...rows.sessions.map(
      (s) =>
        `s${n(s.id)} of ${n(s.parent)} for ${s.user} on ${s.template}@${s.templateVersion} ${s.status} ${s.why ?? '-'} ${s.mode} until ${since(s.modeEnds)} ${s.readOnly ? 'reads' : 'all'} ${s.claimed ? 'claimed' : 'new'} ends ${since(s.ends)}`,
    ),
    ...rows.grants.map(
      (g) =>
        `s${n(g.session)} holds ${rowKey(g)} by ${g.source} ${g.readOnly ? 'reads' : 'all'} ${g.sensitive ? 'sensitive' : 'plain'}`,
    ),
    ...rows.items.map((i) => {
      const at = position.get(i.request) ?? 0
      position.set(i.request, at + 1)
      return `r${real.requests.indexOf(i.request)}.${at} s${n(i.session)} ${rowKey(i)} ${i.outcome} ${i.reason} asked ${i.asked ?? '-'} ${i.sensitive ? 'sensitive' : 'plain'} ends ${since(i.ends)}`
    }),
    ...rows.rules.map(
      (r) =>
        `${r.user} ${r.effect} ${rowKey(r)} for ${r.template} ${r.suspended ? 'suspended' : 'active'} until ${since(r.ends)}`,
    ),
    `frozen ${rows.frozen.length}`,
  ]
  assert.deepEqual(theirs.sort(), ours.sort(), 'the database is what the model says')
}

/** SPEC section 5: every narrowing raises a session's version, and nothing else does. */
function versionsRise({ model, real }: Both, { before, versions }: Seen): void {
  for (const s of model.sessions) {
    const was = before.sessions.find((row) => row.id === real.sessions[s.n])?.version ?? 1
    const is = real.row(s)?.version ?? 0
    const rose = s.version > (versions[s.n] ?? 1)
    assert.equal(is > was, rose, `the version of session ${s.n} ${rose ? 'rises' : 'stays'}`)
    assert(is >= was, 'a version never falls')
  }
}

/** I2, I3, I8, I15, from the rows and the tokens themselves. */
function walls({ model, real }: Both): void {
  for (const { session: s, claims } of real.tokens.splice(0)) {
    for (const d of claims.authorization_details) {
      const row = real.rows.grants.find((g) => g.id === d.grant_id)
      assert(row && row.session === real.sessions[s.n], 'I3: what a token carries is held')
      const item = s.grants.find((g) => keyOf(g.item) === rowKey(row))?.item
      assert(item, 'I3: the model holds it too')
      const p = model.known(item.permission)
      assert(p?.delegable, 'I2: never-delegable is never lent')
      assert(model.inCeiling(s.template, s.templateVersion, item), 'I2, I15: inside every ceiling')
      assert(
        model.access(s).some((a) => covers(a, item)),
        'I3: the user has it now',
      )
    }
    assert(claims.exp <= claims.iat + 900 && claims.exp <= START + s.ends, 'I4')
    assert.equal(claims.session_version, real.row(s)?.version, 'a new token is not stale')
    assert.equal(claims.aud.includes('/t/globex'), false, 'I17')
  }
  for (const g of real.rows.grants)
    assert(!g.sensitive || g.source === 'user', 'I8: sensitive only by the user')
  for (const i of real.rows.items)
    if (i.answeredBy !== null) assert.equal(i.answeredBy, i.user, 'I6: only the own user answers')
}

/** What an agent or a user was told is granted is covered by something that stands. */
function told({ model, granted }: Both): void {
  for (const [s, item] of granted)
    assert(
      model.standing(s).some((g) => covers(g.item, item)),
      `granted ${keyOf(item)} is held`,
    )
}

/** I7, I9, I11: the tree. */
function tree({ real }: Both): void {
  const { sessions, grants } = real.rows
  const looseness = ['ask', 'auto', 'bypass']
  for (const s of sessions) {
    const parent = sessions.find((one) => one.id === s.parent)
    if (s.parent === null) continue
    assert(
      parent && parent.user === s.user && parent.agent === s.agent,
      'one user and agent a tree',
    )
    assert(s.ends <= parent.ends, 'a child ends no later')
    if (s.status !== 'active') continue
    assert(
      looseness.indexOf(s.mode) <= looseness.indexOf(parent.mode),
      'I7: a child is never looser',
    )
    assert.equal(parent.status, 'active', 'I11: a subtree ends with its top')
  }
  for (const g of grants.filter((one) => one.from !== null)) {
    const parents = grants.find((one) => one.id === g.from)
    const child = sessions.find((s) => s.id === g.session)
    assert(parents && parents.session === child?.parent, 'I9: inherited from the direct parent')
    assert.equal(rowKey(parents), rowKey(g), 'I9: at most what the parent holds')
  }
  for (const i of real.rows.items) {
    const open = real.rows.items.some((j) => j.request === i.request && j.outcome === 'pending')
    assert.equal(i.status, open ? 'pending' : 'settled', 'a request is settled with its last item')
  }
}

/** I12 and section 11: exactly the records that were due, each naming its agent, user and session, on whole chains. */
function records(both: Both, unread: readonly ActivityRow[]): void {
  const { model, real } = both
  const heads = real.stage.heads
  const lines: string[] = []
  const ends = new Set<string>()
  for (const { chain, record: row } of unread) {
    const record = Object.fromEntries(
      Object.entries({ ...row, at: new Date(String(row.at)).toISOString() }).filter(
        ([, value]) => value !== null,
      ),
    ) as typeof row
    const head: Head = heads.get(chain) ?? { seq: 0, hash: '' }
    assert.equal(record.seq, head.seq + 1, 'the chain counts')
    assert.equal(record.prev_hash, head.hash, 'the chain holds')
    assert.equal(record.hash, hashOf(record), 'the hash is that of the record')
    heads.set(chain, { seq: record.seq, hash: record.hash })
    const { data, type } = record
    const s = model.sessions.find((one) => real.sessions[one.n] === chain)
    if (s === undefined) {
      assert(chain === record.tenant_id, 'a chain is a session’s or a tenant’s')
      lines.push(`${chain === 'ten_acme' ? 'tenant' : 'other'} ${type}`)
      continue
    }
    assert.deepEqual(
      [record.agent_id, record.user_id, record.session_id, record.root_session_id],
      ['agt_model', USERS[s.user], chain, real.sessions[rootOf(s).n]],
      'I12: names agent, user, session and root',
    )
    if (type === 'access.decided') {
      const item = String(data.item_id)
      assert(!ends.has(item), 'I16: one end an item')
      ends.add(item)
    }
    lines.push(`s${s.n} ${type} ${more(type, data)}`.trim())
  }
  assert.deepEqual(lines.sort(), model.records.sort(), 'I12: every change leaves its record')
  for (const s of real.rows.sessions)
    assert.deepEqual(
      heads.get(s.id),
      { seq: s.seq, hash: s.hash },
      'the session’s head is its chain’s',
    )
}

const more = (type: string, data: { readonly [name: string]: unknown }): string =>
  type === 'access.decided'
    ? `${data.outcome} ${data.reason}`
    : type === 'grant.ended' || type === 'session.ended'
      ? String(data.reason)
      : type === 'grant.created'
        ? String(data.source)
        : ''

/** I18: no credential in anything that an agent is told, nor in any record. */
function secrets({ real }: Both, { results }: Seen, unread: readonly ActivityRow[]): void {
  const text = JSON.stringify([results, unread.map((a) => a.record)])
  for (const secret of real.secrets) assert(!text.includes(secret), 'I18: no secret is told')
}
