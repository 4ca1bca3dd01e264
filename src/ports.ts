import type { Db } from './db/tx.ts'

/** What truly varies: time, identity of new things, and how others are woken. Postgres is not behind a port. */
export type Clock = {
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export const ID_PREFIXES = {
  session: 'ses',
  user: 'usr',
  agent: 'agt',
  request: 'req',
  item: 'itm',
  grant: 'grt',
  rule: 'rul',
  template: 'tpl',
  templateComment: 'tco',
  tenant: 'ten',
  activity: 'act',
  role: 'rol',
  group: 'grp',
  assignment: 'asg',
  userPermission: 'prm',
  restriction: 'rst',
  resourceServer: 'rsv',
  identityProvider: 'idp',
  enforcementPoint: 'epc',
  freeze: 'frz',
  toolServer: 'tsv',
  proxy: 'prx',
  serviceClient: 'scl',
  proposal: 'prp',
  mount: 'mnt',
  serviceAccount: 'svc',
  servicePermission: 'svp',
} as const

export type Ids = {
  /** `ses_…`: time-ordered and unguessable (UUID version 7 in 32 hex digits). */
  readonly id: <Brand extends string>(of: keyof typeof ID_PREFIXES) => Brand
  /** 256 random bits, base64url. */
  readonly secret: () => string
}

/** Wakes those who wait, here at once and on other instances through the bus. Carries nothing but a kick. */
export type Notify = {
  readonly kick: () => void
  /** Calls `woken` after every kick until the returned function is called. */
  readonly subscribe: (woken: () => void) => () => void
}

/** How a kick reaches the other instances. It carries nothing: a lost one costs whoever waits a look's delay, nothing else. */
export type Bus = {
  /** Sends one kick, apart from any transaction. Rejects when it could not be sent. */
  readonly send: () => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * Opens a bus, whether or not its server is there. `onKick` is called after each kick, one's own too, and each time it has
 * connected (again), since kicks may have been missed; `onError` as often as something goes wrong.
 */
export type OpenBus = (of: {
  readonly onKick: () => void
  readonly onError: (error: unknown) => void
}) => Promise<Bus>

/** Seals what Lend has to present to others, so that the database alone does not give it away. */
export type Vault = {
  /** Names the key that seals. */
  readonly kid: string
  /** Whether every process on this database has its keys, so that what all of them need may be sealed with it. */
  readonly isShared: boolean
  /** `context` says what the text is for; it opens for nothing else. */
  readonly seal: (text: string, context: string) => string
  /** Null when it does not open: another key, another context, or changed. */
  readonly open: (sealed: string, context: string) => string | null
}

/**
 * What operators count (`/metrics`). Told only of what has happened: nothing that was rolled back, and nothing that names a
 * tenant, a person or a session.
 */
export type Observe = {
  /** One item's decision, committed: its outcome, its reason, and what decided. */
  readonly decided: (outcome: string, reason: string, by: string) => void
  /** A token left the token endpoint; `how` is its grant type. */
  readonly tokenIssued: (how: string) => void
  /** The token endpoint refused; `reason` is the fault's code. */
  readonly tokenRefused: (reason: string) => void
  /** A request was turned away for coming too often. */
  readonly rateLimited: (limit: RateLimit) => void
  /** What this instance counted could not be told to the others. */
  readonly rateUnshared: () => void
  /** A request was answered at one of the closed list of doors. */
  readonly answered: (door: string, status: number, seconds: number) => void
}

/** How often, a minute: each of these for itself. */
export const RATE_LIMITS = [
  'client',
  'tenant',
  'session',
  'tools',
  'person',
  'point',
  'publisher',
  'address',
] as const
export type RateLimit = (typeof RATE_LIMITS)[number]

/** Counts requests in this process and tells other instances now and then (`src/rates.ts`). Waits for nothing, never throws. */
export type Rates = {
  /** Counts one request of whoever `key` is. Null: go on. Else in how many seconds to try again, at least one. */
  readonly take: (limit: RateLimit, key: string) => Promise<number | null>
  /** The same, but counts nothing. */
  readonly look: (limit: RateLimit, key: string) => Promise<number | null>
}

export type Span = { readonly set: (name: string, value: string | number) => void }

/** Traces for operators (`src/tracing.ts`). Nothing in them is anybody's: no token, no statement's value, nobody's id. */
export type Trace = {
  /** A request that is served here, as part of the caller's trace where `traceparent` (W3C Trace Context) names one. */
  readonly served: <T>(
    name: string,
    traceparent: string | undefined,
    body: (span: Span) => Promise<T>,
  ) => Promise<T>
  /** A part of what is under way. */
  readonly span: <T>(name: string, body: (span: Span) => Promise<T>) => Promise<T>
  /** A call of a program that is not ours: a trace of its own, so that nothing of the caller's goes along, linked from here. */
  readonly outgoing: <T>(
    name: string,
    body: (headers: Readonly<Record<string, string>>) => Promise<T>,
  ) => Promise<T>
  /** Of what is under way, for log lines. */
  readonly ids: () => { readonly trace_id: string; readonly span_id: string } | null
}

/** What every flow is given. */
export type Ctx = {
  readonly db: Db
  readonly clock: Clock
  readonly ids: Ids
  readonly notify: Notify
  /** Without a trailing slash, as in `http://localhost:4000`. */
  readonly publicUrl: string
  /** Aborted when the instance drains: whoever waits answers with what there is. */
  readonly stopping?: AbortSignal
  /** Absent: nothing can be sealed, so no tool server can have a credential; nor can what others sealed be opened. */
  readonly vault?: Vault
  /** Absent: nobody counts. */
  readonly observe?: Observe
  /** Absent: nobody traces. */
  readonly trace?: Trace
  /** Absent: as often as anybody likes. */
  readonly rates?: Rates
}

export const issuerOf = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string): string =>
  `${ctx.publicUrl}/t/${tenant}`
export const mcpUrlOf = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string): string =>
  `${issuerOf(ctx, tenant)}/mcp`
export const toolGatewayUrlOf = (
  ctx: Pick<Ctx, 'publicUrl'>,
  tenant: string,
  server: string,
): string => `${issuerOf(ctx, tenant)}/tools/${server}/mcp`
/** The server whose address at the tenant's tool gateway this is, or null: it is none. */
export function toolServerIn(
  ctx: Pick<Ctx, 'publicUrl'>,
  tenant: string,
  url: string,
): string | null {
  const [, name] = /\/tools\/([a-z0-9-]+)\/mcp$/.exec(url) ?? []
  return name !== undefined && url === toolGatewayUrlOf(ctx, tenant, name) ? name : null
}
