import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { AgentCaller, AppCaller, TenantRef, UserCaller } from '../../src/callers.ts'
import type { SessionClaims } from '../../src/core/claims.ts'
import type { AgentId, GrantId, SessionId, TenantId, UserId } from '../../src/core/vocabulary.ts'
import { Journal } from '../../src/db/activity.ts'
import { endGrants } from '../../src/db/endings.ts'
import { lockTree } from '../../src/db/tree-read.ts'
import { type Tx, withTx } from '../../src/db/tx.ts'
import type { Fault, Result } from '../../src/fault.ts'
import type { Issued } from '../../src/flows/issue-token.ts'
import { type Ctx, ID_PREFIXES } from '../../src/ports.ts'
import { createWorld, type World } from '../support/world.ts'
import { EPOCH } from '../support/world-seed.ts'
import type { Ask, Grant, Session } from './reference.ts'
import {
  ACME,
  AGENT,
  GLOBEX,
  NARROWS,
  resetSql,
  STRANGER,
  STRANGER_AGENT,
  seedUniverse,
  templateId,
  USERS,
} from './universe.ts'

/** The real flows on a real database, seen from outside: who calls, what was answered, what the rows say now. */

export const START = Date.parse(EPOCH) / 1000

const ref = (id: string, slug: string): TenantRef => ({ id: id as TenantId, slug })
export const acme = ref(ACME, 'acme')
export const globex = ref(GLOBEX, 'globex')

const canonical = (value: unknown): string => canonicalize(value) ?? ''
const narrowNames = new Map(
  Object.entries(NARROWS).flatMap(([name, ways]) => ways.map((way) => [canonical(way), name])),
)
const narrowName = (json: unknown): string | null =>
  json === null || json === undefined ? null : (narrowNames.get(canonical(json)) ?? 'unknown')

/** One string an item, the same for the model's and for the database's. */
export const keyOf = (of: {
  readonly permission: string
  readonly resource?: string | null | undefined
  readonly narrow?: string | null | undefined
}): string => [of.permission, of.resource ?? '-', of.narrow ?? '-'].join(' ')
const rowKey = (of: { permission: string; resource?: string | null; narrow?: unknown }): string =>
  keyOf({ ...of, narrow: narrowName(of.narrow) })

export type SessionRow = {
  id: string
  parent: string | null
  root: string
  user: string
  agent: string
  template: string
  templateVersion: number
  mode: string
  modeEnds: number | null
  status: string
  why: string | null
  readOnly: boolean
  version: number
  claimed: boolean
  ends: number
  seq: number
  hash: string
}
export type GrantRow = {
  id: string
  session: string
  permission: string
  resource: string | null
  narrow: unknown
  readOnly: boolean
  sensitive: boolean
  source: string
  rule: string | null
  from: string | null
  fromSession: string | null
}
export type ItemRow = {
  id: string
  request: string
  session: string
  permission: string
  resource: string | null
  narrow: unknown
  outcome: string
  reason: string
  asked: string | null
  sensitive: boolean
  answeredBy: string | null
  user: string
  status: string
  digest: string
  ends: number
}
export type RuleRow = {
  id: string
  user: string
  template: string
  effect: string
  permission: string
  resource: string | null
  narrow: unknown
  suspended: boolean
  ends: number | null
}
export type ActivityRow = {
  n: number
  chain: string
  record: { [name: string]: unknown } & {
    tenant_id: string
    seq: number
    type: string
    data: { [name: string]: unknown }
    prev_hash: string
    hash: string
  }
}
export type Rows = {
  sessions: SessionRow[]
  grants: GrantRow[]
  items: ItemRow[]
  rules: RuleRow[]
  frozen: string[]
  orphans: number
  other: string
  activity: ActivityRow[]
}

const STATE = `
select jsonb_build_object(
  'sessions', (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'parent', parent_id, 'root', root_id,
    'user', user_id, 'agent', agent_id, 'template', template_id, 'templateVersion', template_version,
    'mode', mode, 'modeEnds', extract(epoch from mode_expires_at), 'status', status, 'why', end_reason,
    'readOnly', read_only, 'version', version, 'claimed', claimed_at is not null,
    'ends', extract(epoch from expires_at), 'seq', chain_seq, 'hash', chain_hash)), '[]')
    from session where tenant_id = '${ACME}'),
  'grants', (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'session', session_id,
    'permission', permission_id, 'resource', resource, 'narrow', narrow, 'readOnly', read_only,
    'sensitive', sensitive, 'source', source, 'rule', rule_id, 'from', inherited_from,
    'fromSession', parent_session_id)), '[]') from access_grant where tenant_id = '${ACME}'),
  'items', (select coalesce(jsonb_agg(jsonb_build_object('id', i.id, 'request', r.id,
    'session', r.session_id, 'permission', i.permission_id, 'resource', i.resource, 'narrow', i.narrow,
    'outcome', i.outcome, 'reason', i.decision_reason, 'asked', i.asked_reason,
    'sensitive', i.sensitive, 'answeredBy', i.answered_by, 'user', r.user_id, 'status', r.status,
    'digest', r.digest, 'ends', extract(epoch from r.expires_at)) order by r.id, i.position), '[]')
    from access_request r join request_item i on i.request_id = r.id where r.tenant_id = '${ACME}'),
  'rules', (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'user', user_id,
    'template', template_id, 'effect', effect, 'permission', permission_id, 'resource', resource,
    'narrow', narrow, 'suspended', status = 'suspended', 'ends', extract(epoch from expires_at))), '[]')
    from consent_rule where tenant_id = '${ACME}'),
  'frozen', (select coalesce(jsonb_agg(scope || ':' || target_id), '[]') from frozen
    where tenant_id = '${ACME}'),
  'orphans', (select count(*) from access_grant g left join session s on s.id = g.session_id
    where s.id is null or s.status <> 'active'),
  'other', (select md5(jsonb_build_array(
    (select jsonb_agg(to_jsonb(s) order by id) from session s where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(g) order by id) from access_grant g where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(i) order by i.id) from request_item i join access_request r
      on r.id = i.request_id where r.tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(r) order by id) from access_request r where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(c) order by id) from consent_rule c where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(f) order by id) from frozen f where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(a) order by id) from agent a where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(u) order by id) from app_user u where tenant_id = '${GLOBEX}'),
    (select jsonb_agg(to_jsonb(p) order by id) from user_permission p where tenant_id = '${GLOBEX}')
  )::text)),
  'activity', (select coalesce(jsonb_agg(jsonb_build_object('n', n, 'chain', chain,
    'record', to_jsonb(a) - 'n' - 'chain' - 'xid') order by n), '[]') from activity a where n > $1)
) as state`

/** Somebody of the other tenant with something of everything, who must never notice anything (I17). */
const STRANGER_SQL = `
insert into session (id, tenant_id, root_id, depth, user_id, agent_id, template_id, template_version,
  mode, created_at, expires_at) values ('ses_stranger', '${GLOBEX}', 'ses_stranger', 0, '${STRANGER}',
  '${STRANGER_AGENT}', '${templateId('m-root')}', 1, 'ask', '${EPOCH}', '2099-01-01');
insert into access_request (id, tenant_id, session_id, root_id, user_id, reason, digest, status,
  created_at, expires_at) values ('req_stranger', '${GLOBEX}', 'ses_stranger', 'ses_stranger',
  '${STRANGER}', 'x', 'x', 'pending', '${EPOCH}', '2099-01-01');
insert into request_item (id, request_id, session_id, position, permission_id, sensitive, outcome,
  decision_reason) values ('itm_stranger', 'req_stranger', 'ses_stranger', 0, 'email-templates:write',
  false, 'pending', 'mode_ask');
insert into access_grant (id, tenant_id, session_id, permission_id, source, sensitive, request_id,
  created_at) values ('grt_stranger', '${GLOBEX}', 'ses_stranger', 'accounts:read', 'user', false,
  'req_stranger', '${EPOCH}');
insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, effect, created_at) values
  ('rul_stranger', '${GLOBEX}', '${STRANGER}', '${templateId('m-root')}', 'm.api:read', 'allow', '${EPOCH}');
`

/** A world that runs many sequences, one after the other, each from the same beginning. */
export type Stage = {
  readonly world: World
  /** How far the record has been read. */
  activity: number
  readonly heads: Map<string, Head>
  /** Rows of the decision table that were reached so far. */
  readonly reasons: Set<string>
}
export type Head = { seq: number; hash: string }

export async function createStage(): Promise<Stage> {
  const world = await createWorld()
  await seedUniverse(world.pg)
  await world.pg.exec(STRANGER_SQL)
  return { world, activity: 0, heads: new Map(), reasons: new Set() }
}

/** Fixed length, so that none is part of another and a leak is found by looking for the text. */
let made = 0
const ids: Ctx['ids'] = {
  id: <Brand extends string>(of: keyof typeof ID_PREFIXES) =>
    `${ID_PREFIXES[of]}_${(++made).toString(16).padStart(32, '0')}` as Brand,
  secret: () => `SECRET${(++made).toString(16).padStart(12, '0')}`,
}

/** What one sequence has made so far: real ids for the model's numbers, and the credentials that were handed out. */
export class Real {
  readonly stage: Stage
  readonly ctx: Ctx
  now = 0
  readonly sessions: string[] = []
  readonly requests: string[] = []
  readonly refresh = new Map<number, string>()
  readonly control = new Map<number, SessionClaims>()
  readonly freezes = new Map<string, string>()
  /** Tokens of this step, to be looked at with the rows. */
  readonly tokens: { readonly session: Session; readonly claims: SessionClaims }[] = []
  /** Every refresh token: none may ever be seen again (I18). */
  readonly secrets: string[] = []
  /** Records that no check has read yet. */
  readonly unread: ActivityRow[] = []
  rows: Rows = {
    sessions: [],
    grants: [],
    items: [],
    rules: [],
    frozen: [],
    orphans: 0,
    other: '',
    activity: [],
  }

  private constructor(stage: Stage) {
    this.stage = stage
    this.ctx = { ...stage.world.ctx, ids, clock: { now: () => (START + this.now) * 1000 } }
  }
  static async open(stage: Stage): Promise<Real> {
    await stage.world.pg.exec(resetSql())
    const real = new Real(stage)
    await real.look()
    real.unread.length = 0
    // Only tenants' chains go on; a sequence that failed may have left them half read.
    stage.heads.clear()
    for (const { id, ...head } of await stage.world.rows<Head & { id: string }>(
      'select tenant_id as id, seq, hash from tenant_chain',
    ))
      stage.heads.set(id, head)
    return real
  }

  /** Reads everything that there is to see, and the records since the last look. */
  async look(): Promise<void> {
    const [row] = await this.stage.world.rows<{ state: Rows }>(STATE, [this.stage.activity])
    if (row === undefined) throw new Error('no state')
    this.rows = row.state
    this.unread.push(...this.rows.activity)
    this.stage.activity = this.rows.activity.at(-1)?.n ?? this.stage.activity
  }

  tx = <T>(body: (tx: Tx) => Promise<T>): Promise<T> => withTx(this.ctx.db, 'model', body)

  person(who: 'admin' | 'stranger' | 'strange admin' | number): UserCaller {
    const there = who === 'stranger' || who === 'strange admin'
    const id =
      who === 'admin'
        ? 'usr_adam'
        : who === 'stranger'
          ? STRANGER
          : who === 'strange admin'
            ? 'usr_gina'
            : (USERS[who] ?? '')
    return {
      as: 'user',
      tenant: there ? globex : acme,
      userId: id as UserId,
      login: id,
      name: id,
      staffRoles: String(who).endsWith('admin') ? ['org_admin'] : [],
      clientId: 'people',
    }
  }
  app = (agent: string = AGENT, tenant: TenantRef = acme): AppCaller => ({
    as: 'app',
    tenant,
    agentId: agent as AgentId,
  })
  sessionId = (s: Session): SessionId => (this.sessions[s.n] ?? 'ses_none') as SessionId
  row = (s: Session): SessionRow | undefined =>
    this.rows.sessions.find((row) => row.id === this.sessions[s.n])
  /** As the agent with the last token it was given, or with one that is as new as can be. */
  agent(s: Session, stale: boolean): AgentCaller {
    const row = this.row(s)
    const last = this.control.get(s.n)?.session_version ?? 0
    return {
      as: 'agent',
      tenant: acme,
      agentId: AGENT as AgentId,
      userId: row?.user as UserId,
      sessionId: this.sessionId(s),
      rootId: row?.root as SessionId,
      sessionVersion: stale ? last : (row?.version ?? last),
      carries: [],
      omits: 0,
    }
  }
  presented(s: Session, stale: boolean): SessionClaims {
    const claims = this.control.get(s.n)
    if (claims === undefined) throw new Error(`session ${s.n} has no token`)
    return stale ? claims : { ...claims, session_version: this.row(s)?.version ?? 0 }
  }
  itemRows = (ask: Ask): ItemRow[] =>
    this.rows.items.filter((row) => row.request === this.requests[ask.n])
  grantId = (s: Session, g: Grant): GrantId =>
    (this.rows.grants.find(
      (row) => row.session === this.sessions[s.n] && rowKey(row) === keyOf(g.item),
    )?.id ?? 'grt_none') as GrantId

  /** Makes a permission never-delegable as a flow would: what is held of it ends in the same commit. */
  async makeNeverDelegable(permission: string, roots: readonly Session[]): Promise<void> {
    await this.tx(async (tx) => {
      const journal = new Journal(this.ctx, acme.id)
      for (const root of roots) {
        const tree = await lockTree(tx, {
          tenantId: acme.id,
          sessionId: this.sessionId(root),
          now: START + this.now,
        })
        const held = tree?.nodes.flatMap((node) => node.grants) ?? []
        const lost = held.filter((g) => g.item.permission === permission)
        if (tree !== null)
          endGrants(tx, journal, tree, new Map(lost.map((g) => [g.id, 'catalog_changed'])))
      }
      await journal.write(tx)
      await tx.sql`update permission set delegable = false where id = ${permission}`
    })
  }
}

/** A fault's code, with the limit where there is one: which of several freezes was found first does not matter. */
export const codeOf = (fault: Fault): string =>
  fault.code === 'limit_reached' ? `limit_reached:${fault.limit}` : fault.code
export const said = <T>(result: Result<T>): T | string =>
  result.ok ? result.value : codeOf(result.fault)

/** What a token says, without what differs every time. */
export const tokenOf = ({ claims }: Issued) => ({
  ...claims,
  jti: undefined,
  session_version: undefined,
  iat: claims.iat - START,
  exp: claims.exp - START,
  authorization_details: claims.authorization_details
    .map(
      (d) =>
        `${d.type} ${rowKey({ ...d, resource: d.identifier ?? null })} ${d.read_only === true}`,
    )
    .sort(),
})

export { rowKey }

/** The hash of a record, worked out with another library than the product's. */
export const hashOf = (record: { readonly hash: string }): string => {
  const { hash: _, ...rest } = record
  return createHash('sha256').update(canonical(rest)).digest('hex')
}
