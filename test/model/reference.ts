import {
  ACCESS,
  ACCESS_AT_FIRST,
  CATALOG,
  ENABLED,
  type Item,
  LISTED,
  type Limits,
  LOOSENESS,
  type Mode,
  NAMES,
  type Permission,
  SERVERS,
  TEMPLATES,
  USERS,
  type Version,
  type Wish,
} from './universe.ts'

/**
 * The idea of Lend as plain sets, written from SPEC sections 3, 4 and 5 and from nothing in src/. One tenant, its people,
 * one agent. Each method says what the real flow must answer, moves the sets, and notes the records that must be left.
 */

export type Grant = {
  readonly item: Item
  readonly source: 'user' | 'rule' | 'mode' | 'inherited'
  readonly readOnly: boolean
  readonly sensitive: boolean
  /** The parent's grant that this one follows. */
  readonly from: Grant | null
}
export type Session = {
  readonly n: number
  readonly parent: Session | null
  readonly user: number
  readonly template: string
  readonly templateVersion: number
  readonly readOnly: boolean
  readonly ends: number
  mode: Mode
  modeEnds: number | null
  status: 'active' | 'ended' | 'revoked' | 'expired'
  why: string | null
  claimed: boolean
  version: number
  grants: Grant[]
  /** Version that the last control token carries; null: none was issued. */
  token: number | null
  /** Of the whole tree, on the root. */
  requests: number[]
}
export type AskedItem = {
  readonly item: Item
  readonly sensitive: boolean
  readonly asked: string | null
  readonly rule: Rule | null
  outcome: 'pending' | 'granted' | 'refused'
  reason: string
}
export type Ask = {
  readonly n: number
  readonly session: Session
  readonly items: AskedItem[]
  readonly ends: number
}
export type Effect = 'allow' | 'deny' | 'ask'
export type Rule = {
  readonly user: number
  readonly template: string
  readonly effect: Effect
  readonly item: Item
  suspended: boolean
  ends: number | null
}
export type Answer = 'allow_once' | 'allow_always' | 'deny' | 'deny_always'
export type Enabled = {
  on: boolean
  adopted: number
  kept: readonly Item[]
  modes: readonly Mode[]
  limits: Partial<Limits>
}
export type Token = {
  readonly session: Session
  readonly audience: string | null
  readonly version: number
  readonly expires: number
  readonly grants: readonly Grant[]
}
export type Said<T> = T | string
type Verdict = { outcome: 'granted' | 'refused' | 'asked'; reason: string; rule: Rule | null }

// What a pattern means is the set of names it matches: cover is superset, overlap is a common name.
const parts = (text: string) => text.split('/')
const matches = (pattern: string, name: string): boolean =>
  parts(pattern).length === parts(name).length &&
  parts(pattern).every((part, i) => part === '*' || part === parts(name)[i])
const means = (resource: string | undefined): ReadonlySet<string> =>
  new Set(resource === undefined ? [''] : NAMES.filter((name) => matches(resource, name)))
export const sameItem = (a: Item, b: Item): boolean =>
  a.permission === b.permission && a.resource === b.resource && a.narrow === b.narrow
export const covers = (a: Item, b: Item): boolean =>
  a.permission === b.permission &&
  [...means(b.resource)].every((name) => means(a.resource).has(name)) &&
  (a.narrow === undefined || a.narrow === b.narrow)
export const overlaps = (a: Item, b: Item): boolean =>
  a.permission === b.permission &&
  [...means(b.resource)].some((name) => means(a.resource).has(name))
const covered = (by: readonly Item[], item: Item) => by.some((one) => covers(one, item))
const overlapped = (by: readonly Item[], item: Item) => by.some((one) => overlaps(one, item))

const least = (...all: readonly (number | undefined)[]): number =>
  Math.min(...all.map((n) => n ?? Number.POSITIVE_INFINITY))
const stricter = (a: Mode, b: Mode): Mode => (LOOSENESS.indexOf(a) < LOOSENESS.indexOf(b) ? a : b)
const looser = (a: Mode, b: Mode): boolean => LOOSENESS.indexOf(a) > LOOSENESS.indexOf(b)

const STATUS_OF: Readonly<Record<string, Session['status']>> = {
  agent: 'ended',
  user: 'ended',
  timeout: 'expired',
}

export const isYes = (answer: Answer) => answer.startsWith('allow')

export class Reference {
  now = 0
  agentActive = true
  readonly users = USERS.map(() => ({ active: true, access: ACCESS.slice(0, ACCESS_AT_FIRST) }))
  readonly catalog = new Map<string, Permission>(Object.entries(CATALOG))
  readonly tenant = new Map<string, Enabled>(
    ENABLED.map((name) => [
      name,
      { on: true, adopted: 1, kept: version(name, 1).ceiling, modes: LOOSENESS, limits: {} },
    ]),
  )
  /** `tenant`, `agent`, `user:0`, `template:m-root`. */
  readonly frozen = new Set<string>()
  readonly sessions: Session[] = []
  readonly asks: Ask[] = []
  rules: Rule[] = []
  /** Users whose change waits in the feed. */
  readonly told = new Set<number>()
  /** Records that the last step must have left. */
  records: string[] = []

  // --- What holds now.

  known = (permission: string): Permission | undefined => {
    const row = this.catalog.get(permission)
    return row?.retired === false ? row : undefined
  }
  tree = (of: Session): Session[] =>
    this.sessions.filter((s) => rootOf(s) === rootOf(of) && s.status === 'active')
  path = (of: Session): Session[] => (of.parent === null ? [of] : [...this.path(of.parent), of])

  versions(template: string, own: number): { own: Version; adopted: Version; tenant: Enabled } {
    const tenant = this.tenant.get(template)
    if (tenant === undefined) throw new Error(`${template} is not turned on`)
    return { own: version(template, own), adopted: version(template, tenant.adopted), tenant }
  }
  inCeiling(template: string, own: number, item: Item): boolean {
    const v = this.versions(template, own)
    return (
      v.tenant.on &&
      covered(v.own.ceiling, item) &&
      covered(v.adopted.ceiling, item) &&
      covered(v.tenant.kept, item)
    )
  }
  isSensitive(template: string, own: number, item: Item): boolean {
    const v = this.versions(template, own)
    return (
      this.known(item.permission)?.sensitive === true ||
      overlapped([...v.own.sensitive, ...v.adopted.sensitive], item)
    )
  }
  limit(template: string, own: number, name: keyof Limits): number {
    const v = this.versions(template, own)
    return least(v.own.limits[name], v.adopted.limits[name], v.tenant.limits[name])
  }
  allowedModes(template: string, own: number): readonly Mode[] {
    const v = this.versions(template, own)
    return LOOSENESS.filter((m) =>
      [v.own.modes, v.adopted.modes, v.tenant.modes].every((list) => list.includes(m)),
    )
  }
  /** In force now. */
  mode(s: Session): Mode {
    if (s.modeEnds !== null && this.now >= s.modeEnds) return 'ask'
    return this.allowedModes(s.template, s.templateVersion).includes(s.mode) ? s.mode : 'ask'
  }
  rulesOf(user: number, template: string, effect: Effect): Rule[] {
    return this.rules.filter(
      (r) =>
        r.user === user &&
        r.template === template &&
        r.effect === effect &&
        (r.ends === null || r.ends > this.now),
    )
  }
  isFrozen(s: Session): boolean {
    return (
      ['tenant', 'agent', `user:${s.user}`].some((scope) => this.frozen.has(scope)) ||
      this.path(s).some((one) => this.frozen.has(`template:${one.template}`))
    )
  }
  /** Why the session cannot act at all. `stale`: with its last token, which may be below its version. */
  dead(s: Session, stale = false): string | null {
    if (s.status !== 'active' || this.now >= s.ends) return 'session_over'
    if (this.users[s.user]?.active !== true) return 'user_disabled'
    if (!this.agentActive) return 'agent_disabled'
    return stale && s.token !== null && s.token < s.version ? 'token_stale' : null
  }
  access = (s: Session): readonly Item[] => this.users[s.user]?.access ?? []

  // --- SPEC section 4.

  decide(s: Session, item: Item): Verdict {
    const t = [s.template, s.templateVersion] as const
    const p = this.known(item.permission)
    const deny = this.rulesOf(s.user, s.template, 'deny').find((r) => overlaps(r.item, item))
    const ask = this.rulesOf(s.user, s.template, 'ask').find((r) => overlaps(r.item, item))
    const allows = this.rulesOf(s.user, s.template, 'allow').filter((r) => covers(r.item, item))
    const allow = allows.find((r) => !r.suspended)
    const held = s.grants.map((g) => g.item)
    const denied = this.asks
      .filter((a) => rootOf(a.session) === rootOf(s))
      .flatMap((a) => a.items.filter((i) => i.reason === 'denied_by_user').map((i) => i.item))
    const mode = this.mode(s)
    const table: readonly (readonly [boolean, Verdict['outcome'], string, (Rule | undefined)?])[] =
      [
        [p === undefined, 'refused', 'unknown_permission'],
        [!this.inCeiling(...t, item), 'refused', 'outside_ceiling'],
        [p?.delegable === false, 'refused', 'never_delegable'],
        [!covered(this.access(s), item), 'refused', 'user_lacks_access'],
        [deny !== undefined, 'refused', 'deny_rule', deny],
        [covered(held, item), 'granted', 'already_held'],
        [overlapped(denied, item), 'refused', 'denied_this_session'],
        [this.isSensitive(...t, item), 'asked', 'sensitive'],
        [ask !== undefined, 'asked', 'ask_rule', ask],
        [allow === undefined && allows.length > 0, 'asked', 'reconsent', allows[0]],
        [allow !== undefined, 'granted', 'allow_rule', allow],
        [mode === 'auto' && p?.risk === 'low', 'granted', 'mode_auto'],
        [mode === 'bypass', 'granted', 'mode_bypass'],
        [true, 'asked', 'mode_ask'],
      ]
    const [, outcome, reason, rule] = table.find(([applies]) => applies) ?? table[0] ?? []
    return { outcome: outcome ?? 'refused', reason: reason ?? '', rule: rule ?? null }
  }

  /** Rows 1 to 4 and deny rules: why a yes no longer holds. */
  wall(s: Session, item: Item, denied: readonly Item[]): string | null {
    const p = this.known(item.permission)
    if (p === undefined) return 'unknown_permission'
    if (!this.inCeiling(s.template, s.templateVersion, item)) return 'outside_ceiling'
    if (!p.delegable) return 'never_delegable'
    if (!covered(this.access(s), item)) return 'user_lacks_access'
    const rules = this.rulesOf(s.user, s.template, 'deny').map((r) => r.item)
    return overlapped([...rules, ...denied], item) ? 'deny_rule' : null
  }

  ask(s: Session, stale: boolean, wishes: readonly Wish[]) {
    const dead = this.dead(s, stale)
    if (dead !== null) return dead
    const root = rootOf(s)
    const limit = (of: Session, name: keyof Limits) =>
      this.limit(of.template, of.templateVersion, name)
    const lately = root.requests.filter((t) => t > this.now - 60)
    const refuse = (code: string) => {
      this.note('access.requested', s)
      return code
    }
    if (this.isFrozen(s)) return refuse('frozen')
    if (lately.length >= limit(root, 'requestsPerMinute'))
      return refuse('limit_reached:requestsPerMinute')
    if (wishes.length > limit(s, 'itemsPerRequest')) return refuse('limit_reached:itemsPerRequest')
    // A call that is not understood costs as much as one that is.
    const charged = [...lately, this.now]
    if (wishes.some((w) => w.malformed && this.known(w.item.permission))) {
      root.requests = charged
      return 'item_invalid'
    }

    // What is lost already must not count as held, nor a question whose time is up as asked.
    this.narrow(s)
    this.withdraw(this.tree(root), 'expired', (a) => a.ends <= this.now)
    const items = wishes
      .map((w) => w.item)
      .filter((item, i, all) => all.findIndex((one) => sameItem(one, item)) === i)
    const decided = items.map((item) => {
      const verdict = this.decide(s, item)
      const before =
        verdict.outcome === 'asked'
          ? this.asks.find(
              (a) =>
                a.session === s &&
                a.items.some((i) => i.outcome === 'pending' && sameItem(i.item, item)),
            )
          : undefined
      return { item, ...verdict, before }
    })
    const fresh = decided.filter((d) => d.before === undefined)
    const open = this.asks.filter(
      (a) => rootOf(a.session) === root && a.items.some((i) => i.outcome === 'pending'),
    )
    if (fresh.some((d) => d.outcome === 'asked') && open.length >= limit(root, 'openRequests'))
      return refuse('limit_reached:openRequests')

    root.requests = charged
    this.note('access.requested', s)
    const made: Ask | null =
      fresh.length === 0
        ? null
        : {
            n: this.asks.length,
            session: s,
            ends: Math.min(s.ends, this.now + limit(s, 'requestWaitSeconds')),
            items: fresh.map((d) => ({
              item: d.item,
              sensitive: this.isSensitive(s.template, s.templateVersion, d.item),
              asked: d.outcome === 'asked' ? d.reason : null,
              rule: d.rule,
              outcome: d.outcome === 'asked' ? 'pending' : d.outcome,
              reason: d.reason,
            })),
          }
    if (made !== null) this.asks.push(made)
    for (const d of fresh) {
      if (d.outcome === 'asked') continue
      this.note('access.decided', s, `${d.outcome} ${d.reason}`)
      if (d.outcome === 'granted' && d.reason !== 'already_held')
        this.grant(s, d.item, d.reason === 'allow_rule' ? 'rule' : 'mode')
    }
    return {
      request: made?.n ?? decided.find((d) => d.before)?.before?.n ?? null,
      items: wishes.map((w) => {
        const d = decided.find((one) => sameItem(one.item, w.item))
        const asked = d?.outcome === 'asked' ? ` in ${(d.before ?? made)?.n}` : ''
        return `${d?.outcome} ${d?.reason}${asked}`
      }),
    }
  }

  answer(
    by: number | 'stranger',
    ask: Ask,
    of: {
      readonly digest: boolean
      /** By position among all items; undefined: no answer. */
      readonly answers: readonly (Answer | undefined)[]
      readonly extra: boolean
      readonly ruleEnds: number | null
    },
  ): Said<readonly string[]> {
    const s = ask.session
    if (by !== s.user) return 'not_found'
    const over = (reason: string) => ask.items.some((i) => i.reason === reason)
    if (ask.items.every((i) => i.outcome !== 'pending')) {
      if (over('expired')) return 'request_expired'
      return over('cancelled') ? 'request_cancelled' : 'already_answered'
    }
    if (!of.digest) return 'digest_mismatch'
    if (this.now >= ask.ends) return 'request_expired'
    const dead = this.dead(s)
    if (dead !== null) return dead
    const questions = ask.items.flatMap((i, at) => {
      const answer = of.answers[at]
      return i.outcome === 'pending' ? [{ i, answer }] : []
    })
    if (of.extra || questions.some((q) => q.answer === undefined)) return 'answer_incomplete'
    const all = questions.flatMap(({ i, answer }) => (answer === undefined ? [] : [{ i, answer }]))
    if (all.some((q) => q.i.sensitive && q.answer === 'allow_always'))
      return 'sensitive_not_remembered'
    if (all.some((q) => isYes(q.answer)) && this.isFrozen(s)) return 'frozen'

    const denied = all.filter((q) => q.answer === 'deny_always').map((q) => q.i.item)
    for (const { i, answer } of all) {
      const sensitive = this.isSensitive(s.template, s.templateVersion, i.item)
      const no = !isYes(answer)
        ? 'denied_by_user'
        : (this.wall(s, i.item, denied) ??
          (sensitive && answer === 'allow_always' ? 'sensitive' : null))
      i.outcome = no === null ? 'granted' : 'refused'
      i.reason = no ?? 'allowed_by_user'
      this.note('access.decided', s, `${i.outcome} ${i.reason}`)
    }
    for (const { i, answer } of all) {
      if (i.outcome === 'granted' && answer === 'allow_always') {
        const renewed = i.asked === 'reconsent' && i.rule !== null && this.inForce(i.rule)
        if (renewed && i.rule !== null) {
          i.rule.suspended = false
          if (of.ruleEnds !== null) i.rule.ends = of.ruleEnds
          this.note('rule.confirmed', s)
        } else this.saveRule(s.user, s.template, 'allow', i.item, of.ruleEnds, s)
      }
      if (answer === 'deny_always')
        this.saveRule(s.user, s.template, 'deny', i.item, of.ruleEnds, s)
    }
    // What is lost already must not stand in for what the user now allows.
    this.narrow(s)
    for (const { i } of all) {
      const held = s.grants.map((g) => g.item)
      if (i.outcome === 'granted' && !covered(held, i.item)) this.grant(s, i.item, 'user')
    }
    if (denied.length > 0) this.narrowAll(s.user, s.template)
    return ask.items.map((i) => `${i.outcome} ${i.reason}`)
  }

  inForce = (rule: Rule): boolean =>
    this.rules.includes(rule) && (rule.ends === null || rule.ends > this.now)

  grant(s: Session, item: Item, source: Grant['source'], from: Grant | null = null, only = false) {
    const sensitive = source === 'user' && this.isSensitive(s.template, s.templateVersion, item)
    s.grants.push({ item, source, readOnly: only, sensitive, from })
    this.note('grant.created', s, source)
  }

  saveRule(
    user: number,
    template: string,
    effect: Effect,
    item: Item,
    ends: number | null,
    s: Session | null,
  ) {
    const same = this.rules.find(
      (r) =>
        r.user === user && r.template === template && r.effect === effect && sameItem(r.item, item),
    )
    if (same === undefined)
      this.rules.push({ user, template, effect, item, suspended: false, ends })
    else Object.assign(same, { suspended: false, ends })
    this.note('rule.created', s)
  }

  createRule(of: {
    readonly user: number
    readonly template: string
    readonly effect: Effect
    readonly wish: Wish
    readonly ends: number | null
  }): Said<null> {
    const { user, template, effect, wish, ends } = of
    if (this.known(wish.item.permission) === undefined || wish.malformed) return 'item_invalid'
    const adopted = this.tenant.get(template)?.adopted ?? 1
    const sensitive =
      this.known(wish.item.permission)?.sensitive === true ||
      overlapped(version(template, adopted).sensitive, wish.item)
    if (effect === 'allow' && sensitive) return 'sensitive_not_remembered'
    this.saveRule(user, template, effect, wish.item, ends, null)
    if (effect === 'deny') this.narrowAll(user, template)
    return null
  }
  deleteRule(by: number, rule: Rule): Said<null> {
    if (rule.user !== by) return 'not_found'
    this.rules = this.rules.filter((r) => r !== rule)
    this.note('rule.deleted', null)
    return null
  }

  // --- SPEC section 5: what leaves.

  /** Why a grant can no longer be held. */
  lost(s: Session, g: Grant): string | null {
    const p = this.known(g.item.permission)
    if (p?.delegable !== true) return 'catalog_changed'
    if (!this.inCeiling(s.template, s.templateVersion, g.item)) return 'ceiling_changed'
    if (!covered(this.access(s), g.item)) return 'user_lost_access'
    if (this.rulesOf(s.user, s.template, 'deny').some((r) => overlaps(r.item, g.item)))
      return 'deny_rule'
    if (s.parent !== null && g.from !== null)
      if (!s.parent.grants.includes(g.from) || this.lost(s.parent, g.from) !== null)
        return 'parent_lost'
    return null
  }
  /** What of a session's grants holds now, noticed or not. */
  standing = (s: Session): Grant[] => s.grants.filter((g) => this.lost(s, g) === null)

  narrow(of: Session) {
    const lost = new Map(
      this.tree(of).flatMap((s) =>
        s.grants.flatMap((g) => {
          const why = this.lost(s, g)
          return why === null ? [] : [[g, why] as const]
        }),
      ),
    )
    this.end(of, lost)
  }
  /** Ends grants and all that follow them; a session that loses something has its version raised. */
  end(of: Session, lost: Map<Grant, string>) {
    for (const s of this.tree(of)) {
      for (const g of s.grants)
        if (g.from !== null && lost.has(g.from) && !lost.has(g)) lost.set(g, 'parent_lost')
      const gone = s.grants.filter((g) => lost.has(g))
      if (gone.length === 0) continue
      for (const g of gone) this.note('grant.ended', s, lost.get(g))
      s.grants = s.grants.filter((g) => !lost.has(g))
      s.version++
    }
  }
  narrowAll(user: number, template?: string) {
    for (const root of this.sessions.filter((s) => s.parent === null && s.user === user))
      if (this.tree(root).some((s) => template === undefined || s.template === template))
        this.narrow(root)
  }
  /** What the background does for one person. */
  reEvaluate(user: number) {
    const roots = this.sessions.filter((s) => s.parent === null && s.user === user)
    for (const root of roots.filter((s) => s.status === 'active')) {
      if (this.users[user]?.active !== true) this.endSession(root, 'user_disabled')
      else if (!this.agentActive) this.endSession(root, 'agent_disabled')
      else this.narrow(root)
    }
  }
  endSession(top: Session, why: string): { sessions: number; grants: number; prompts: number } {
    const over = this.tree(top).filter((s) => this.path(s).includes(top))
    const grants = over.flatMap((s) => s.grants)
    this.end(top, new Map(grants.map((g) => [g, 'session_over'])))
    const prompts = this.withdraw(over, 'cancelled', () => true)
    for (const s of over) {
      s.status = STATUS_OF[why] ?? 'revoked'
      s.why = s === top ? why : 'parent'
      s.version++
      this.note('session.ended', s, s.why)
    }
    return { sessions: over.length, grants: grants.length, prompts }
  }
  withdraw(of: readonly Session[], end: string, due: (ask: Ask) => boolean): number {
    let count = 0
    for (const ask of this.asks.filter((a) => of.includes(a.session) && due(a)))
      for (const i of ask.items.filter((one) => one.outcome === 'pending')) {
        i.outcome = 'refused'
        // A question whose own time was up has expired, whoever notices.
        i.reason = ask.ends <= this.now ? 'expired' : end
        count++
        this.note('access.decided', ask.session, `refused ${i.reason}`)
      }
    return count
  }
  sweep() {
    for (const root of this.sessions.filter((s) => s.parent === null && s.status === 'active')) {
      this.withdraw(this.tree(root), 'expired', (a) => a.ends <= this.now)
      const over = this.tree(root).filter((s) => s.ends <= this.now)
      for (const s of over)
        if (!this.path(s).some((one) => one !== s && over.includes(one)))
          this.endSession(s, 'timeout')
    }
  }
  release(s: Session, stale: boolean, which: (g: Grant) => boolean): Said<number> {
    const dead = this.dead(s, stale)
    if (dead !== null) return dead
    const gone = s.grants.filter(which)
    this.end(s, new Map(gone.map((g) => [g, 'released'])))
    return gone.length
  }
  tighten(s: Session, wanted: Mode, ends: number | null): Said<null> {
    if (s.status !== 'active' || this.now >= s.ends) return 'session_over'
    if (wanted === 'ask' && ends !== null) return 'unprocessable'
    const until = wanted === 'ask' ? null : (ends ?? s.modeEnds)
    const later = s.modeEnds !== null && until !== null && until > s.modeEnds
    const same = wanted === s.mode && until === s.modeEnds
    if (looser(wanted, this.mode(s)) || same || (wanted !== 'ask' && later))
      return 'mode_not_tighter'
    for (const one of this.tree(s).filter((o) => this.path(o).includes(s) && o.mode !== 'ask')) {
      const mode = stricter(one.mode, wanted)
      const stops = least(one.modeEnds ?? undefined, until ?? undefined)
      const modeEnds = mode === 'ask' || stops === Number.POSITIVE_INFINITY ? null : stops
      if (mode === one.mode && modeEnds === one.modeEnds) continue
      Object.assign(one, { mode, modeEnds })
      this.note('mode.changed', one)
    }
    return null
  }

  // --- Starts and tokens.

  private started(
    of: Pick<Session, 'parent' | 'user' | 'template' | 'readOnly' | 'ends' | 'mode' | 'modeEnds'>,
  ): Session {
    const s: Session = {
      ...of,
      n: this.sessions.length,
      templateVersion: this.tenant.get(of.template)?.adopted ?? 1,
      status: 'active',
      why: null,
      claimed: false,
      version: 1,
      grants: [],
      token: null,
      requests: [],
    }
    this.sessions.push(s)
    this.note('session.started', s)
    return s
  }
  start(of: {
    readonly user: number
    readonly template: string
    readonly version: number | null
    readonly by: 'exchange' | 'user'
    readonly mode: Mode
    readonly modeEnds: number | null
  }): Said<Session> {
    const fault = this.startFault(of)
    if (fault !== null) {
      if (of.by === 'exchange') this.note('token.refused', null)
      return fault
    }
    const { user, template, mode, modeEnds } = of
    const adopted = this.tenant.get(template)?.adopted ?? 1
    const ends = this.now + this.limit(template, adopted, 'sessionLifeSeconds')
    return this.started({ parent: null, user, template, readOnly: false, ends, mode, modeEnds })
  }
  private startFault(of: Parameters<Reference['start']>[0]): string | null {
    const enabled = this.tenant.get(of.template)
    if (of.by === 'user' && of.mode === 'ask' && of.modeEnds !== null) return 'unprocessable'
    if (!this.agentActive) return 'agent_disabled'
    if (this.users[of.user]?.active !== true) return 'user_disabled'
    if (!LISTED.includes(of.template)) return 'template_not_listed'
    if (enabled?.on !== true) return 'template_not_enabled'
    if (of.version !== null && of.version !== enabled.adopted) return 'template_version_not_adopted'
    if (!['ask', ...this.allowedModes(of.template, enabled.adopted)].includes(of.mode))
      return 'mode_not_allowed'
    const scopes = ['tenant', 'agent', `user:${of.user}`, `template:${of.template}`]
    if (scopes.some((scope) => this.frozen.has(scope))) return 'frozen'
    const live = this.sessions.filter(
      (s) => s.parent === null && s.user === of.user && s.status === 'active',
    )
    return live.length >= this.limit(of.template, enabled.adopted, 'liveRootsPerUser')
      ? 'limit_reached:liveRootsPerUser'
      : null
  }
  startChild(
    parent: Session,
    stale: boolean,
    of: { readonly template: string; readonly readOnly: boolean },
  ): Said<Session> {
    const dead = this.dead(parent, stale)
    if (dead !== null) return dead
    this.narrow(parent)
    this.note('subagent.started', parent)
    const enabled = this.tenant.get(of.template)
    const both = this.versions(parent.template, parent.templateVersion)
    const root = rootOf(parent)
    const depth = [parent, root].map((s) =>
      this.limit(s.template, s.templateVersion, 'subagentDepth'),
    )
    const children = this.tree(parent).filter((s) => s.parent === parent).length
    if (this.isFrozen(parent)) return 'frozen'
    if (![both.own, both.adopted].every((v) => v.children.includes(of.template)))
      return 'child_not_allowed'
    if (enabled?.on !== true) return 'template_not_enabled'
    if (this.frozen.has(`template:${of.template}`)) return 'frozen'
    if (this.path(parent).length > Math.min(...depth)) return 'limit_reached:subagentDepth'
    if (children >= this.limit(parent.template, parent.templateVersion, 'liveChildren'))
      return 'limit_reached:liveChildren'
    const allowed = this.allowedModes(of.template, enabled.adopted)
    const mode = LOOSENESS.filter(
      (m) => !looser(m, this.mode(parent)) && (m === 'ask' || allowed.includes(m)),
    ).at(-1)
    const life = this.limit(of.template, enabled.adopted, 'sessionLifeSeconds')
    const child = this.started({
      parent,
      user: parent.user,
      template: of.template,
      readOnly: of.readOnly || parent.readOnly,
      ends: Math.min(parent.ends, this.now + life),
      mode: mode ?? 'ask',
      modeEnds: mode === 'ask' ? null : parent.modeEnds,
    })
    for (const g of parent.grants) {
      const reads = this.known(g.item.permission)?.access === 'read'
      const marked = [parent, child].some((s) =>
        this.isSensitive(s.template, s.templateVersion, g.item),
      )
      if (marked || ((child.readOnly || g.readOnly) && !reads)) continue
      if (this.lost(child, { ...g, from: g }) === null)
        this.grant(child, g.item, 'inherited', g, child.readOnly || g.readOnly)
    }
    return child
  }
  /** The first token of a session that is there already. `as`: who tries. */
  claim(s: Session, mine: boolean, stale = false): Said<Token> {
    const refuse = (on: Session | null, code: string) => {
      this.note('token.refused', on)
      return code
    }
    const held = s.parent === null ? null : this.dead(s.parent, stale)
    if (held !== null) return refuse(s.parent, held)
    if (!mine) return refuse(null, 'session_not_found')
    const dead = this.dead(s)
    if (dead !== null) return refuse(s, dead)
    if (this.isFrozen(s)) return refuse(s, 'frozen')
    if (this.tenant.get(s.template)?.on !== true) return refuse(s, 'template_not_enabled')
    if (s.claimed) return refuse(s, 'session_claimed')
    s.claimed = true
    return this.issue(s, null)
  }
  again(s: Session, audience: string | null, stale: boolean): Said<Token> {
    const refuse = (code: string) => {
      this.note('token.refused', s)
      return code
    }
    const dead = this.dead(s, stale)
    if (dead !== null) return refuse(dead)
    if (this.isFrozen(s)) return refuse('frozen')
    if (this.tenant.get(s.template)?.on !== true) return refuse('template_not_enabled')
    if (audience !== null && !(audience in SERVERS)) return refuse('target_invalid')
    return this.issue(s, audience)
  }
  issue(s: Session, audience: string | null): Token {
    this.narrow(s)
    this.note('token.issued', s)
    if (audience === null) s.token = s.version
    const services = audience === null ? ['s1', 's2'] : (SERVERS[audience]?.services ?? [])
    return {
      session: s,
      audience,
      version: s.version,
      expires: Math.min(this.now + 900, s.ends),
      grants: s.grants.filter((g) =>
        services.includes(this.known(g.item.permission)?.service ?? ''),
      ),
    }
  }

  note(type: string, s: Session | null, more = '') {
    this.records.push(`${s === null ? 'tenant' : `s${s.n}`} ${type} ${more}`.trim())
  }
}

export const rootOf = (s: Session): Session => (s.parent === null ? s : rootOf(s.parent))

function version(template: string, n: number): Version {
  const v = TEMPLATES[template]?.[n]
  if (v === undefined) throw new Error(`no ${template}@${n}`)
  return v
}
