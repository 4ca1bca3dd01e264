import assert from 'node:assert/strict'
import type { EnforcementCaller, TenantRef } from '../../src/callers.ts'
import type { UserId } from '../../src/core/vocabulary.ts'
import { fail, type Result } from '../../src/fault.ts'
import { changeUser, giveUserPermission, takeUserPermission } from '../../src/flows/admin/users.ts'
import { answerPromptTx } from '../../src/flows/answer-prompt.ts'
import { createRule, deleteRule } from '../../src/flows/edit-rules.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { claimSubagent, exchangeForAudience, refreshToken } from '../../src/flows/exchange-token.ts'
import { freeze, unfreeze } from '../../src/flows/freeze.ts'
import { introspect, revokeToken } from '../../src/flows/introspect.ts'
import type { Issued } from '../../src/flows/issue-token.ts'
import type { RawItem } from '../../src/flows/items.ts'
import { myAccess } from '../../src/flows/my-access.ts'
import {
  createSession,
  endByPerson,
  takeBack,
  tightenMode,
} from '../../src/flows/people-sessions.ts'
import { followFeed, reEvaluateUser } from '../../src/flows/re-evaluate.ts'
import { releaseAccess } from '../../src/flows/release-access.ts'
import { requestAccess } from '../../src/flows/request-access.ts'
import { startByExchange } from '../../src/flows/start-by-exchange.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { sweep } from '../../src/flows/sweep.ts'
import { check, type Seen } from './check.ts'
import type { Command, Who } from './commands.ts'
import { acme, globex, keyOf, Real, rowKey, START, type Stage, said, tokenOf } from './real.ts'
import { covers, Reference, rootOf, type Session, sameItem, type Token } from './reference.ts'
import {
  ACCESS,
  ACME,
  AGENT,
  API_READ,
  CATALOG,
  KEEPABLE,
  LOOSENESS,
  NARROWS,
  OTHER_AGENT,
  SERVERS,
  STRANGER,
  STRANGER_AGENT,
  stored,
  TEMPLATE_NAMES,
  TIGHT_LIMITS,
  templateId,
  USERS,
  WISHES,
  type Wish,
} from './universe.ts'

/**
 * Runs one sequence on the model and on the real flows side by side. After every command the two answers must be equal,
 * and then everything that can be seen of the state (`check.ts`).
 */
export async function run(stage: Stage, commands: readonly Command[]): Promise<void> {
  const real = await Real.open(stage)
  const both: Both = { model: new Reference(), real, results: [], granted: [] }
  for (const [i, command] of commands.entries()) {
    both.model.records = []
    both.results = []
    both.granted = []
    const before = both.real.rows
    const versions = both.model.sessions.map((s) => s.version)
    const told: Seen = { before, versions, results: both.results }
    try {
      await step(both, command)
      await both.real.look()
      check(both, told)
    } catch (error) {
      if (error instanceof Error)
        error.message = `command ${i}, ${JSON.stringify(command)}: ${error.message}`
      throw error
    }
  }
}

export type Both = {
  readonly model: Reference
  readonly real: Real
  /** Everything that this step said to an agent. */
  results: unknown[]
  /** Grants that must stand, since the agent was told so just now. */
  granted: readonly (readonly [Session, Wish['item']])[]
}

const same = (real: unknown, model: unknown) => assert.deepEqual(real, model)

/** Below 100 among those that live; above among all. */
function pickOf<T>(all: readonly T[], pick: number, live: (one: T) => boolean): T | undefined {
  const among = pick < 100 ? all.filter(live) : all
  return among[pick % Math.max(1, among.length)]
}
const sessionAt = ({ model }: Both, pick: number) =>
  pickOf(model.sessions, pick, (s) => s.status === 'active')
/** One that can act: somebody has been given a token for it. */
const actorAt = (both: Both, pick: number) => {
  const s = sessionAt(both, pick)
  return s === undefined || s.token === null ? undefined : s
}

const rawOf = (w: Wish): RawItem => {
  const narrow = w.raw?.narrow ?? (w.item.narrow && NARROWS[w.item.narrow]?.[0])
  const resource = w.raw?.resource ?? w.item.resource
  return {
    permission: w.item.permission,
    ...(resource === undefined ? {} : { resource }),
    ...(narrow ? { narrow: narrow as { [field: string]: unknown } } : {}),
  }
}
const wishAt = (n: number): Wish => WISHES[n % WISHES.length] ?? { item: API_READ }
const personRef = (user: string, issuer = 'https://idp.example') => ({
  issuer,
  subject: user,
  createsUsers: false,
})

/** What the model says a token says, in the shape of `tokenOf`. */
function expectedToken({ model, real }: Both, token: Token) {
  const s = token.session
  const issuer = 'http://localhost:4000/t/acme'
  const ref = (one: Session) => `${one.template}@${one.templateVersion}`
  const act = model.path(s).reduce<object | undefined>(
    (inner, one) => ({
      iss: issuer,
      sub: AGENT,
      sub_profile: 'ai_agent',
      sid: real.sessionId(one),
      template: ref(one),
      ...(inner === undefined ? {} : { act: inner }),
    }),
    undefined,
  )
  const subject = token.audience === null ? 'session' : SERVERS[token.audience]?.subject
  const scope = token.grants
    .map((g) => g.item.permission)
    .filter((p) => CATALOG[p]?.kind === 'api')
    .sort()
  const user = USERS[s.user]
  return {
    iss: issuer,
    aud: token.audience ?? `${issuer}/mcp`,
    sub: subject === 'user' ? user : real.sessionId(s),
    client_id: AGENT,
    iat: model.now,
    exp: token.expires,
    sid: real.sessionId(s),
    root_sid: real.sessionId(rootOf(s)),
    tenant: 'acme',
    template: ref(s),
    on_behalf_of: user,
    act,
    authorization_details: token.grants
      .map((g) => `lend_${CATALOG[g.item.permission]?.kind} ${keyOf(g.item)} ${g.readOnly}`)
      .sort(),
    ...(scope.length === 0 ? {} : { scope: [...new Set(scope)].join(' ') }),
    jti: undefined,
    session_version: undefined,
  }
}

/** Compares an issue with what was expected, and keeps what was handed out. */
function issued(both: Both, got: Result<Issued>, expected: Token | string) {
  if (typeof expected === 'string' || !got.ok) return same(said(got), expected)
  const s = expected.session
  const { claims } = got.value
  register(both, s, got.value.sessionId)
  const token = tokenOf(got.value)
  const scope = token.scope?.split(' ').sort().join(' ')
  same({ ...token, ...(scope === undefined ? {} : { scope }) }, expectedToken(both, expected))
  if (expected.audience === null) both.real.control.set(s.n, claims)
  if (got.value.refreshToken !== undefined) {
    both.real.refresh.set(s.n, got.value.refreshToken)
    both.real.secrets.push(got.value.refreshToken)
  }
  both.real.tokens.push({ session: s, claims })
}

function register({ real }: Both, s: Session, id: string) {
  real.sessions[s.n] ??= id
  same(real.sessions[s.n], id)
}

async function lookAtAll({ model, real }: Both) {
  for (const [i, userId] of USERS.entries()) {
    model.reEvaluate(i)
    await reEvaluateUser(real.ctx, { tenantId: acme.id, userId: userId as UserId })
  }
}
async function follow({ model, real }: Both) {
  for (const user of [...model.told].sort()) model.reEvaluate(user)
  model.told.clear()
  await followFeed(real.ctx)
}

async function claimFirst(both: Both, s: Session): Promise<void> {
  const { model, real } = both
  const { parent } = s
  if (parent !== null && parent.token === null) return
  const app = real.app()
  const got =
    parent === null
      ? await startByExchange(real.ctx, app, {
          person: personRef(USERS[s.user] ?? ''),
          template: undefined,
          task: undefined,
          resource: undefined,
          sessionId: real.sessionId(s),
        })
      : await claimSubagent(real.ctx, app, real.presented(parent, true), {
          sessionId: real.sessionId(s),
          resource: undefined,
        })
  issued(both, got, model.claim(s, true, true))
}

type Do<Name extends Command['do']> = (
  both: Both,
  command: Extract<Command, { do: Name }>,
) => Promise<void>

const COMMANDS: { readonly [Name in Command['do']]: Do<Name> } = {
  start: async (both, c) => {
    const { model, real } = both
    const modeEnds = c.modeFor === null ? null : model.now + c.modeFor
    const mode = c.by === 'exchange' ? ('ask' as const) : c.mode
    const of = { ...c, mode, modeEnds: c.by === 'exchange' ? null : modeEnds }
    const template = c.version === null ? c.template : `${c.template}@${c.version}`
    const expected = model.start(of)
    if (c.by === 'exchange') {
      const got = await startByExchange(real.ctx, real.app(), {
        person: personRef(USERS[c.user] ?? ''),
        template,
        task: undefined,
        resource: undefined,
        sessionId: undefined,
      })
      if (typeof expected === 'string') return same(said(got), expected)
      expected.claimed = true
      return issued(both, got, model.issue(expected, null))
    }
    const got = await real.tx((tx) =>
      createSession(real.ctx, tx, real.person(c.user), {
        agentId: AGENT,
        template,
        mode,
        modeExpiresAt: modeEnds === null ? undefined : START + modeEnds,
      }),
    )
    if (typeof expected === 'string' || !got.ok) return same(said(got), expected)
    real.sessions[expected.n] = got.value.id
    if (c.claim) await claimFirst(both, expected)
  },

  claim: async (both, c) => {
    const { model, real } = both
    const s = sessionAt(both, c.at)
    if (s === undefined) return
    if (c.as === 'own') return claimFirst(both, s)
    const app = real.app(c.as === 'agent' ? OTHER_AGENT : AGENT)
    const { parent } = s
    if (parent === null) {
      const got = await startByExchange(real.ctx, app, {
        person: personRef(USERS[c.as === 'user' ? 1 - s.user : s.user] ?? ''),
        template: undefined,
        task: undefined,
        resource: undefined,
        sessionId: real.sessionId(s),
      })
      return issued(both, got, model.claim(s, false))
    }
    // A child's own token, or a sibling's, is not its direct parent's.
    if (s.token === null) return
    const got = await claimSubagent(real.ctx, real.app(), real.presented(s, true), {
      sessionId: real.sessionId(s),
      resource: undefined,
    })
    const dead = model.dead(s, true)
    model.note('token.refused', dead === null ? null : s)
    issued(both, got, dead ?? 'session_not_found')
  },

  ask: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const wishes = c.items.map(wishAt)
    const expected = model.ask(s, c.stale, wishes)
    const asked = { items: wishes.map(rawOf), reason: 'to test' }
    const got = await requestAccess(real.ctx, real.agent(s, c.stale), asked)
    both.results.push(got)
    if (typeof expected === 'string' || !got.ok) return same(said(got), expected)
    const { requestId } = got.value
    const fresh = model.asks.at(-1)
    if (requestId !== undefined && fresh !== undefined && !real.requests.includes(requestId))
      real.requests[fresh.n] = requestId
    const n = (id: string | undefined) => (id === undefined ? null : real.requests.indexOf(id))
    for (const i of got.value.items) real.stage.reasons.add(i.verdict.reason)
    same(
      {
        request: n(requestId),
        items: got.value.items.map(
          (i) =>
            `${i.verdict.outcome} ${i.verdict.reason}${i.requestId === undefined ? '' : ` in ${n(i.requestId)}`}`,
        ),
      },
      expected,
    )
    both.granted = got.value.items
      .map((i, at) => [i, wishes[at]] as const)
      .flatMap(([i, w]) => (i.verdict.outcome === 'granted' && w ? [[s, w.item] as const] : []))
  },

  answer: async (both, c) => {
    const { model, real } = both
    const ask = pickOf(model.asks, c.request, (a) => a.items.some((i) => i.outcome === 'pending'))
    if (ask === undefined) return
    const rows = real.itemRows(ask)
    const open = ask.items.findIndex((i) => i.outcome === 'pending')
    const answers = ask.items.map((i, at) => {
      const answered = i.outcome === 'pending' && !(c.wrong === 'missing' && at === open)
      const answer = c.answers[at % c.answers.length]
      const never = answer === 'allow_always' && i.sensitive && c.wrong !== 'sensitive always'
      return answered ? (never ? 'allow_once' : answer) : undefined
    })
    const ruleEnds = c.ruleFor === null ? null : model.now + c.ruleFor
    const items = answers.flatMap((decision, at) => {
      if (decision === undefined) return []
      const always = decision.endsWith('always') && ruleEnds !== null
      return [
        {
          id: rows[at]?.id ?? '',
          decision,
          ...(always ? { ruleExpiresAt: START + ruleEnds } : {}),
        },
      ]
    })
    if (c.wrong === 'extra') items.push({ id: 'itm_none', decision: 'deny' })
    const { user } = ask.session
    const by = c.wrong === 'other user' ? 1 - user : c.wrong === 'other tenant' ? 'stranger' : user
    const expected = model.answer(by, ask, {
      digest: c.wrong !== 'digest',
      answers,
      extra: c.wrong === 'extra',
      ruleEnds,
    })
    const got = await answerPromptTx(real.ctx, real.person(by), {
      requestId: real.requests[ask.n] as never,
      digest: c.wrong === 'digest' ? 'another' : (rows[0]?.digest ?? ''),
      items,
    })
    same(got.ok, typeof expected !== 'string')
    if (!got.ok) return same(said(got), expected)
    both.granted = ask.items.flatMap((i) =>
      i.reason === 'allowed_by_user' && answers.some((a, at) => a && ask.items[at] === i)
        ? [[ask.session, i.item] as const]
        : [],
    )
  },

  release: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const g = s.grants[c.what % Math.max(1, s.grants.length)]
    const { permission, resource } = g?.item ?? API_READ
    const of =
      c.how === 'grant' && g !== undefined
        ? { grantId: real.grantId(s, g) as string }
        : { permission, ...(c.how === 'item' && resource !== undefined ? { resource } : {}) }
    const expected = model.release(s, c.stale, (one) =>
      'grantId' in of
        ? one === g
        : of.resource === undefined
          ? one.item.permission === of.permission
          : covers(of, one.item),
    )
    const got = await releaseAccess(real.ctx, real.agent(s, c.stale), [of])
    both.results.push(got)
    same(got.ok ? got.value.released.length : said(got), expected)
  },

  'take back': async (both, c) => {
    const { model, real } = both
    const s = sessionAt(both, c.at)
    if (s === undefined) return
    const g = s.grants[c.what % Math.max(1, s.grants.length)]
    const grantId = g === undefined ? 'grt_none' : real.grantId(s, g)
    const held = () => model.tree(s).reduce((n, one) => n + one.grants.length, 0)
    const before = held()
    const may = mayAct(c.as)
    const over = s.status !== 'active' || model.now >= s.ends
    if (may && !over && g !== undefined)
      model.end(s, new Map([[g, c.as === 'own' ? 'taken_back' : 'admin']]))
    const got = await real.tx((tx) =>
      takeBack(real.ctx, tx, personAs(both, s, c.as), { sessionId: real.sessionId(s), grantId }),
    )
    const refused = !may ? 'session_not_found' : over ? 'session_over' : 'not_found'
    if (!may || over || g === undefined) return same(said(got), refused)
    same(said(got), { revoked: before - held() })
  },

  'my access': async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const got = await myAccess(real.ctx, real.agent(s, c.stale))
    both.results.push(got)
    const dead = model.dead(s, c.stale)
    if (dead !== null || !got.ok) return same(said(got), dead)
    const { node } = got.value
    const keys = (items: readonly { readonly item: unknown }[]) =>
      items.map(({ item }) => JSON.stringify(item)).sort()
    same(
      {
        grants: keys(node.grants),
        pending: node.pending.length,
        mode: node.mode,
        ends: node.expiresAt,
      },
      {
        grants: keys(model.standing(s).map((g) => ({ item: stored(g.item) }))),
        pending: model.asks
          .filter((a) => a.session === s)
          .flatMap((a) => a.items.filter((i) => i.outcome === 'pending')).length,
        mode: model.mode(s),
        ends: START + s.ends,
      },
    )
  },

  introspect: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const caller: EnforcementCaller = {
      as: 'enforcement',
      tenant: acme,
      id: 'epc',
      services: ['s2'],
    }
    const got = await introspect(real.ctx, caller, real.presented(s, true))
    const off = model.tenant.get(s.template)?.on !== true
    if (model.dead(s, true) !== null || model.isFrozen(s) || off) return same(got.active, false)
    same(
      got.active && got.authorization_details.map((d) => `${d.permission} ${d.identifier}`).sort(),
      model
        .standing(s)
        .filter((g) => CATALOG[g.item.permission]?.service === 's2')
        .map((g) => `${g.item.permission} ${g.item.resource}`)
        .sort(),
    )
  },

  child: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const expected = model.startChild(s, c.stale, c)
    const got = await startSubagent(real.ctx, real.agent(s, c.stale), c)
    both.results.push(got)
    if (typeof expected === 'string' || !got.ok) return same(said(got), expected)
    real.sessions[expected.n] = got.value.id
    if (!c.claim) return
    // A new token first, if the parent's died of what was just noticed.
    await real.look()
    if (s.token !== s.version) issued(both, await again(real, s, null), model.again(s, null, false))
    await claimFirst(both, expected)
  },

  end: async (both, c) => {
    const { model, real } = both
    const s = sessionAt(both, c.at)
    if (s === undefined) return
    if (c.as === 'agent' || c.as === 'client') {
      if (s.token === null) return
      // Revoking a token stays open while its user or agent is disabled.
      const over = s.status !== 'active' || model.now >= s.ends ? 'session_over' : null
      const dead = c.as === 'client' ? over : model.dead(s, c.stale)
      const got =
        c.as === 'agent'
          ? await endSession(real.ctx, real.agent(s, c.stale), undefined)
          : await revokeToken(real.ctx, real.app(), { refreshToken: real.refresh.get(s.n) ?? '' })
      both.results.push(got)
      if (dead !== null) return same(said(got), c.as === 'agent' ? dead : null)
      return same(said(got), model.endSession(s, c.as === 'agent' ? 'agent' : 'token_revoked'))
    }
    const { as } = c
    const got = await real.tx((tx) =>
      endByPerson(real.ctx, tx, personAs(both, s, as), real.sessionId(s)),
    )
    if (!mayAct(as)) return same(said(got), 'session_not_found')
    if (s.status !== 'active' || model.now >= s.ends) return same(said(got), 'session_over')
    same(said(got), model.endSession(s, as === 'own' ? 'user' : 'admin'))
  },

  reissue: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    issued(both, await again(real, s, c.audience), model.again(s, c.audience, false))
  },

  exchange: async (both, c) => {
    const { model, real } = both
    const s = actorAt(both, c.at)
    if (s === undefined) return
    const got = await exchangeForAudience(
      real.ctx,
      real.app(),
      real.presented(s, c.stale),
      c.audience ?? undefined,
    )
    issued(both, got, model.again(s, c.audience, c.stale))
  },

  access: async (both, c) => {
    const { model, real } = both
    const item = ACCESS[c.item]
    const user = model.users[c.user]
    if (item === undefined || user === undefined) return
    const { permission, resource } = item
    const userId = USERS[c.user] ?? ''
    const has = user.access.some((a) => sameItem(a, item))
    user.access = has ? user.access.filter((a) => !sameItem(a, item)) : [...user.access, item]
    const [row] = await real.stage.world.rows<{ id: string }>(
      `select id from user_permission where user_id = $1 and permission_id = $2
       and resource is not distinct from $3`,
      [userId, permission, resource ?? null],
    )
    same(row !== undefined, has)
    if (c.how === 'flow' || c.how === 'flow and feed') {
      const unknown = model.known(permission) === undefined && !has
      if (unknown) user.access = user.access.filter((a) => !sameItem(a, item))
      else model.note('admin.changed', null)
      if (has) model.told.add(c.user)
      const got = await real.tx<Result<unknown>>((tx) =>
        has
          ? takeUserPermission(real.ctx, real.person('admin'), { userId, id: row?.id ?? '' }, tx)
          : giveUserPermission(
              real.ctx,
              real.person('admin'),
              userId,
              { permission, resource },
              tx,
            ),
      )
      same(got.ok, !unknown)
      if (c.how === 'flow and feed') await follow(both)
      return
    }
    if (has) await real.stage.world.rows('delete from user_permission where id = $1', [row?.id])
    else
      await real.stage.world.rows(
        `insert into user_permission values ($1, '${ACME}', $2, $3, $4, to_timestamp(${START}))`,
        [real.ctx.ids.id('userPermission'), userId, permission, resource ?? null],
      )
    if (c.how === 'row and look') await lookAtAll(both)
  },

  'user status': async (both, c) => {
    const { model, real } = both
    const user = model.users[c.user]
    if (user === undefined) return
    const status = c.on ? 'active' : 'disabled'
    const id = USERS[c.user] ?? ''
    const disabled = user.active && !c.on
    user.active = c.on
    if (c.how === 'row' || c.how === 'row and look') {
      await real.stage.world.rows('update app_user set status = $1 where id = $2', [status, id])
      if (c.how === 'row and look') await lookAtAll(both)
      return
    }
    if (disabled) {
      for (const s of model.sessions)
        if (s.parent === null && s.user === c.user && s.status === 'active')
          model.endSession(s, 'user_disabled')
      model.told.add(c.user)
    }
    model.note('admin.changed', null)
    const got = await real.tx((tx) =>
      changeUser(real.ctx, real.person('admin'), id, { status }, tx),
    )
    same(got.ok, true)
    if (c.how === 'flow and feed') await follow(both)
  },

  'agent status': async (both, c) => {
    both.model.agentActive = c.on
    await both.real.stage.world.rows('update agent set status = $1 where id = $2', [
      c.on ? 'active' : 'disabled',
      AGENT,
    ])
    if (c.look) await lookAtAll(both)
  },

  rule: async (both, c) => {
    const { model, real } = both
    const wish = wishAt(c.item)
    const ends = c.for === null ? null : model.now + c.for
    const expected = model.createRule({ ...c, wish, ends })
    const got = await real.tx((tx) =>
      createRule(real.ctx, tx, real.person(c.user), {
        ...rawOf(wish),
        template: c.template,
        effect: c.effect,
        expiresAt: ends === null ? undefined : START + ends,
      }),
    )
    same(got.ok ? null : said(got), expected)
  },

  'forget rule': async (both, c) => {
    const { model, real } = both
    const rule = model.rules[c.rule % Math.max(1, model.rules.length)]
    if (rule === undefined) return
    const row = real.rows.rules.find(
      (r) =>
        r.user === USERS[rule.user] &&
        r.template === templateId(rule.template) &&
        r.effect === rule.effect &&
        rowKey(r) === keyOf(rule.item),
    )
    assert(row, 'the rule has a row')
    const by = c.as === 'own' ? rule.user : c.as === 'other' ? 1 - rule.user : 'stranger'
    const expected = by === 'stranger' ? 'not_found' : model.deleteRule(by, rule)
    same(said(await real.tx((tx) => deleteRule(real.ctx, tx, real.person(by), row.id))), expected)
  },

  suspend: async ({ model, real }, c) => {
    for (const rule of model.rules)
      if (rule.template === c.template && rule.effect === 'allow') rule.suspended = true
    await real.stage.world.rows(
      `update consent_rule set status = 'suspended' where tenant_id = '${ACME}' and effect = 'allow'
       and template_id = $1`,
      [templateId(c.template)],
    )
  },

  narrow: async (both, c) => {
    const { model, real } = both
    const kept = KEEPABLE.filter((_, i) => !c.dropped.includes(i))
    const limits = TIGHT_LIMITS[c.limits] ?? {}
    const adopted = c.template === 'm-root' ? c.adopted : 1
    const modes = LOOSENESS.filter((m) => c.modes.includes(m))
    model.tenant.set(c.template, { on: c.on, adopted, kept, modes, limits })
    await real.stage.world.rows(
      `update enablement set status = $1, adopted_version = $2, kept = $3::text::jsonb, modes = $4,
       limits = $5::text::jsonb where tenant_id = '${ACME}' and template_id = $6`,
      [
        c.on ? 'on' : 'off',
        adopted,
        JSON.stringify(kept.map(stored)),
        modes,
        JSON.stringify(limits),
        templateId(c.template),
      ],
    )
    if (c.look) await lookAtAll(both)
  },

  catalog: async (both, c) => {
    const { model, real } = both
    const row = model.catalog.get(c.permission)
    if (row === undefined) return
    if (c.set === 'never') {
      const roots = model.sessions.filter((s) => s.parent === null && s.status === 'active')
      for (const root of roots) {
        const held = model.tree(root).flatMap((s) => s.grants)
        const lost = held.filter((g) => g.item.permission === c.permission)
        model.end(root, new Map(lost.map((g) => [g, 'catalog_changed'])))
      }
      await real.makeNeverDelegable(c.permission, roots)
    }
    const set = {
      sensitive: { sensitive: true },
      plain: { sensitive: false },
      never: { delegable: false },
      delegable: { delegable: true },
      retired: { retired: true },
      back: { retired: false },
    }[c.set]
    model.catalog.set(c.permission, { ...row, ...set })
    const [column, value] = Object.entries(set)[0] ?? []
    await real.stage.world.rows(`update permission set ${column} = $1 where id = $2`, [
      value,
      c.permission,
    ])
    if (c.look) await lookAtAll(both)
  },

  freeze: async ({ model, real }, c) => {
    const template = TEMPLATE_NAMES[c.which % TEMPLATE_NAMES.length] ?? ''
    const user = c.which % USERS.length
    const [name, id] = {
      tenant: ['tenant', 'acme'],
      template: [`template:${template}`, template],
      agent: ['agent', AGENT],
      user: [`user:${user}`, USERS[user] ?? ''],
    }[c.scope] as [string, string]
    const there = real.freezes.get(name)
    if (c.on) {
      const got = await real.tx((tx) =>
        freeze(real.ctx, real.person('admin'), { scope: c.scope, id }, tx),
      )
      if (there !== undefined || !got.ok) return same(said(got), 'already_exists')
      model.frozen.add(name)
      model.note('freeze.created', null)
      real.freezes.set(name, got.value.id)
    } else if (there !== undefined) {
      model.frozen.delete(name)
      model.note('freeze.ended', null)
      real.freezes.delete(name)
      const got = await real.tx((tx) => unfreeze(real.ctx, real.person('admin'), there, tx))
      same(said(got), true)
    }
  },

  tighten: async (both, c) => {
    const { model, real } = both
    const s = sessionAt(both, c.at)
    if (s === undefined) return
    const ends = c.for === null ? null : model.now + c.for
    const expected = c.as === 'own' ? model.tighten(s, c.mode, ends) : 'session_not_found'
    const got = await real.tx((tx) =>
      tightenMode(real.ctx, tx, real.person(c.as === 'own' ? s.user : 1 - s.user), {
        id: real.sessionId(s),
        mode: c.mode,
        modeExpiresAt: ends === null ? undefined : START + ends,
      }),
    )
    same(got.ok ? null : said(got), expected)
  },

  tick: async ({ model, real }, c) => {
    model.now += c.seconds
    real.now = model.now
    if (!c.sweep) return
    model.sweep()
    await sweep(real.ctx)
  },

  'look again': lookAtAll,

  'other tenant': async (both, c) => {
    const { model, real } = both
    const s = sessionAt(both, c.at)
    if (s === undefined) return
    const { ctx } = real
    const id = real.sessionId(s)
    const agent = { ...real.agent(s, false), tenant: globex as TenantRef }
    const app = real.app(STRANGER_AGENT, globex)
    const admin = real.person('strange admin')
    const template = 'm-child'
    const tries: { [What in typeof c.what]: () => Promise<[Result<unknown>, string]> } = {
      ask: async () => [
        await requestAccess(ctx, agent, { items: [{ permission: 'm.api:read' }], reason: 'x' }),
        'session_not_found',
      ],
      'my access': async () => [await myAccess(ctx, agent), 'session_not_found'],
      release: async () => [
        await releaseAccess(ctx, agent, [{ permission: 'm.api:read' }]),
        'session_not_found',
      ],
      child: async () => [
        await startSubagent(ctx, agent, { template, readOnly: false }),
        'session_not_found',
      ],
      end: async () => [await endSession(ctx, agent, undefined), 'session_not_found'],
      reissue: async () => [
        await refreshToken(ctx, app, {
          refreshToken: real.refresh.get(s.n) ?? 'none',
          resource: undefined,
        }),
        'refresh_token_invalid',
      ],
      'other agent reissues': async () => [
        await refreshToken(ctx, real.app(OTHER_AGENT), {
          refreshToken: real.refresh.get(s.n) ?? 'none',
          resource: undefined,
        }),
        'refresh_token_invalid',
      ],
      'other agent exchanges': async () => {
        if (s.token === null) return [fail('not_found'), 'not_found']
        const dead = model.dead(s, true)
        model.note('token.refused', dead === null ? null : s)
        const app = real.app(OTHER_AGENT)
        const got = await exchangeForAudience(ctx, app, real.presented(s, true), undefined)
        return [got, dead ?? 'session_not_found']
      },
      claim: async () => {
        model.records.push('other token.refused')
        const got = await startByExchange(ctx, app, {
          person: personRef(STRANGER),
          template: undefined,
          task: undefined,
          resource: undefined,
          sessionId: id,
        })
        return [got, 'session_not_found']
      },
      freeze: async () => [
        await real.tx((tx) => freeze(ctx, admin, { scope: 'agent', id: AGENT }, tx)),
        'unprocessable',
      ],
      unfreeze: async () => {
        const of = [...real.freezes.values()][0] ?? 'frz_none'
        return [await real.tx((tx) => unfreeze(ctx, admin, of, tx)), 'not_found']
      },
      tighten: async () => [
        await real.tx((tx) => tightenMode(ctx, tx, real.person('stranger'), { id, mode: 'ask' })),
        'session_not_found',
      ],
    }
    const [got, expected] = await tries[c.what]()
    same(said(got), expected)
  },
}

const again = (real: Real, s: Session, audience: string | null) =>
  refreshToken(real.ctx, real.app(), {
    refreshToken: real.refresh.get(s.n) ?? '',
    resource: audience ?? undefined,
  })

const mayAct = (who: Who) => who === 'own' || who === 'admin'
const personAs = ({ real }: Both, s: Session, who: Who) =>
  real.person(who === 'own' ? s.user : who === 'other' ? 1 - s.user : who)

const step = (both: Both, command: Command): Promise<void> =>
  (COMMANDS[command.do] as Do<Command['do']>)(both, command as never)
