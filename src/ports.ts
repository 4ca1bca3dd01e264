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
  proxy: 'prx',
} as const

export type Ids = {
  /** `ses_…`: time-ordered and unguessable (UUID version 7 in 32 hex digits). */
  readonly id: <Brand extends string>(of: keyof typeof ID_PREFIXES) => Brand
  /** 256 random bits, base64url. */
  readonly secret: () => string
}

/** Wakes those who wait, here at once and on other instances through the database. Carries nothing but a kick. */
export type Notify = {
  readonly kick: () => void
  /** Calls `woken` after every kick until the returned function is called. */
  readonly subscribe: (woken: () => void) => () => void
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
}

export const issuerOf = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string): string =>
  `${ctx.publicUrl}/t/${tenant}`
export const mcpUrlOf = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string): string =>
  `${issuerOf(ctx, tenant)}/mcp`
