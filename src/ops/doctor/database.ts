import { type Migration, migrations, RESTORING_SCHEMA } from '../../db/open.ts'
import { deploymentCounts } from '../../db/operators.ts'
import {
  type Kept,
  opened,
  SEALED_KINDS,
  type SealedKind,
  type SealedRow,
  sealedBy,
  selectKept,
} from '../../db/sealed.ts'
import { type Db, withRead } from '../../db/tx.ts'
import { RE_EVALUATE_JOB } from '../../flows/re-evaluate.ts'
import type { Clock, Vault } from '../../ports.ts'
import { codeOf, type Finding, finding, well } from './finding.ts'

const VERSION_LEAST = 150_000
const SKEW_SECONDS_WARN = 2
const SKEW_SECONDS_WRONG = 30
/** Transactions, statements outside them, and one that listens. */
const CONNECTIONS_AN_INSTANCE = 23
const OPEN_SECONDS_MAX = 60
const WAITING_SECONDS_MAX = 60

type Server = {
  readonly version: number
  readonly versionText: string
  readonly standby: boolean
  readonly readOnly: boolean
  readonly most: number
  readonly used: number
  readonly now: number
  /** A restore was not finished. */
  readonly restoring: boolean
  /** Seconds that the oldest transaction of this database has been open. */
  readonly oldestOpen: number | null
}

const readServer = async (db: Db): Promise<Server> => {
  const [row] = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<Server>`
      select current_setting('server_version_num')::int as version,
        current_setting('server_version') as "versionText", pg_is_in_recovery() as standby,
        current_setting('transaction_read_only')::boolean as "readOnly",
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
        extract(epoch from clock_timestamp())::float8 as now,
        to_regnamespace(${RESTORING_SCHEMA}) is not null as restoring,
        (select extract(epoch from max(clock_timestamp() - xact_start))::float8 from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend') as "oldestOpen"`,
  )
  if (row === undefined) throw new Error('the database gave no answer')
  return row
}

const UNREACHABLE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Nothing listens there: start Postgres, or mend host and port in DATABASE_URL.',
  ENOTFOUND: 'There is no such host: mend it in DATABASE_URL.',
  CONNECT_TIMEOUT:
    'No answer in time: look at the network and its firewalls between here and there.',
  '28P01': 'The password is wrong: mend it in DATABASE_URL.',
  '28000': 'The server lets this user in by no rule: look at its pg_hba.conf.',
  '3D000': 'The server has no such database: create it, or mend the name in DATABASE_URL.',
  '53300': 'The server has no connection left: raise max_connections, or stop what uses them.',
}

/** Why a database did not answer. Never quotes its URL. */
export function unreachable(error: unknown): Finding {
  const code = codeOf(error) ?? 'no reason given'
  return finding('wrong', 'database', {
    says: `it cannot be reached (${code})`,
    mend: UNREACHABLE[code] ?? 'Try DATABASE_URL with psql, and mend what it says.',
  })
}

export const versionOf = (server: Pick<Server, 'version' | 'versionText'>): Finding =>
  server.version >= VERSION_LEAST
    ? well('database', `Postgres ${server.versionText} answers`)
    : finding('wrong', 'database', {
        says: `Postgres ${server.versionText} is too old`,
        mend: 'Lend needs Postgres 15 or newer: upgrade the server.',
      })

export function connectionsOf({ most, used }: Pick<Server, 'most' | 'used'>): Finding {
  const says = `${used} of ${most} are in use; an instance takes up to ${CONNECTIONS_AN_INSTANCE}`
  return most - used >= CONNECTIONS_AN_INSTANCE
    ? well('connections', says)
    : finding('warn', 'connections', {
        says,
        mend: 'Raise max_connections on the server if another instance is to start.',
      })
}

/** `before` and `after`: this machine's clock around the question, in seconds. */
export function skewOf(of: {
  readonly before: number
  readonly after: number
  readonly there: number
}): Finding {
  // Whatever the way there took, the true difference lies between these two.
  const [low, high] = [of.there - of.after, of.there - of.before]
  const least = low > 0 ? low : high < 0 ? -high : 0
  const says = `this machine and the database differ by ${least.toFixed(1)} s`
  const mend = 'Let a time service (NTP) keep both clocks.'
  if (least > SKEW_SECONDS_WRONG) return finding('wrong', 'clocks', { says, mend })
  if (least > SKEW_SECONDS_WARN) return finding('warn', 'clocks', { says, mend })
  return well('clocks', says)
}

function usableOf({
  standby,
  readOnly,
  restoring,
}: Pick<Server, 'standby' | 'readOnly' | 'restoring'>): readonly Finding[] {
  if (restoring)
    return [
      finding('wrong', 'database', {
        says: 'it holds a restore that was not finished',
        mend: 'Drop it, create it anew and run lend restore again: no server starts on it.',
      }),
    ]
  if (standby)
    return [
      finding('wrong', 'database', {
        says: 'it is a standby, which takes no writes',
        mend: 'Name the primary in DATABASE_URL.',
      }),
    ]
  if (!readOnly) return []
  return [
    finding('wrong', 'database', {
      says: 'this user’s transactions are read-only',
      mend: 'Look at default_transaction_read_only of the database and the user.',
    }),
  ]
}

export function openOf({ oldestOpen }: Pick<Server, 'oldestOpen'>): readonly Finding[] {
  if (oldestOpen === null || oldestOpen <= OPEN_SECONDS_MAX) return []
  return [
    finding('warn', 'transactions', {
      says: `one has been open for ${Math.round(oldestOpen)} s; if it has written, it holds back what was taken back`,
      mend: 'Find it by xact_start in pg_stat_activity and end it.',
    }),
  ]
}

/** What was applied against what this program brings. */
export function migrationsOf(applied: readonly number[], ours: readonly Migration[]): Finding {
  const newest = ours.at(-1)?.when ?? 0
  if (applied.some((when) => when > newest))
    return finding('wrong', 'migrations', {
      says: 'a newer version of Lend has been here',
      mend: 'Run that version, or a newer one: an older one must not write to this database.',
    })
  const missing = ours.filter(({ when }) => !applied.includes(when))
  if (missing.length === 0) return well('migrations', `all ${ours.length} are applied`)
  return finding('warn', 'migrations', {
    says: `${missing.length} of ${ours.length} are not applied, from ${missing[0]?.tag} on`,
    mend: 'The next start applies them.',
  })
}

async function readApplied(db: Db): Promise<readonly number[]> {
  const [there] = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<{ yes: boolean }>`
      select to_regclass('drizzle.__drizzle_migrations') is not null as yes`,
  )
  if (there?.yes !== true) return []
  const rows = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<{ when: number }>`
      select created_at::float8 as when from drizzle.__drizzle_migrations order by created_at`,
  )
  return rows.map(({ when }) => when)
}

const CHECKS: Readonly<Record<SealedKind, string>> = {
  signing_key: 'signing keys',
  identity_provider: 'web client secrets',
  tool_server: 'credentials',
}
const PUT_BACK =
  'Put the key that sealed them back into LEND_SECRET_KEYS, or secret-key.json back into LEND_DATA'
/** Where the key is lost for good. */
const INSTEAD: Readonly<Record<SealedKind, string>> = {
  signing_key: 'make new ones with lend rotate-keys --now, a tenant and algorithm at a time',
  identity_provider: 'give the secrets again',
  tool_server: 'give the credentials again',
}
const NAMED_MAX = 20

/** What one kind of sealed values says of the keys here. Undefined: there is no key at all yet. */
function kindOf(
  kind: SealedKind,
  rows: readonly (SealedRow & Kept)[],
  of: { readonly vault: Vault | undefined; readonly isServer: boolean },
): readonly Finding[] {
  const { vault, isServer } = of
  const check = CHECKS[kind]
  const shut = rows.filter((row) => opened(vault, row, row) === null).map(({ id }) => id)
  const clear = rows.filter(({ clear: text }) => text !== null).length
  const old = rows.filter(({ sealed: text }) => text !== null && sealedBy(text) !== vault?.kid)
  if (shut.length > 0)
    return [
      finding('wrong', check, {
        says: `those of ${shut.slice(0, NAMED_MAX).join(', ')} open with none of the keys${shut.length > NAMED_MAX ? `, and ${shut.length - NAMED_MAX} more` : ''}`,
        mend: `${PUT_BACK}. Where it is lost for good, ${INSTEAD[kind]}.`,
      }),
    ]
  const findings: Finding[] = []
  if (clear > 0)
    findings.push(
      finding('warn', check, {
        says: `${clear} of ${rows.length} lie in clear: whoever reads the database or a backup has them`,
        mend: !isServer
          ? 'The next start seals them.'
          : vault?.isShared
            ? 'Run lend reseal, once no instance of an older version runs.'
            : 'Set the same LEND_SECRET_KEYS on every instance, then run lend reseal.',
      }),
    )
  if (old.length > 0)
    findings.push(
      finding('warn', check, {
        says: `${old.length} of ${rows.length} are sealed with an older key`,
        mend: 'Run lend reseal before that key is taken out.',
      }),
    )
  if (findings.length > 0) return findings
  return [
    well(
      check,
      rows.length === 0 ? 'there are none' : `all ${rows.length} are sealed with the first key`,
    ),
  ]
}

async function keptOf(db: Db, vault: Vault | undefined): Promise<readonly Finding[]> {
  const rows = await withRead(db, 'doctor', selectKept)
  const of = { vault, isServer: db.kind === 'server' }
  return SEALED_KINDS.flatMap((kind) =>
    kindOf(
      kind,
      rows.filter((row) => row.kind === kind),
      of,
    ),
  )
}

type Loose = { readonly name: string; readonly tenant: string }

async function proxiesOf(db: Db): Promise<readonly Finding[]> {
  const rows = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<Loose>`
      select p.name, t.slug as tenant from gateway_proxy p join tenant t on t.id = p.tenant_id
      where p.status = 'active' and not exists (
        select from gateway_mount m where m.tenant_id = p.tenant_id and m.proxy_id = p.id)
      order by t.slug, p.name limit 50`,
  )
  return rows.map(({ name, tenant }) =>
    finding('warn', 'proxies', {
      says: `${JSON.stringify(name)} of ${tenant} exposes nothing: every request through it is refused`,
      mend: `Say which service is below which path: POST /t/${tenant}/api/admin/proxies/{id}/mounts.`,
    }),
  )
}

async function tenantsOf(db: Db): Promise<readonly Finding[]> {
  const rows = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<{ slug: string; signs: boolean }>`
      select t.slug, exists (
        select from identity_provider p where p.tenant_id = t.id and p.status = 'active') as signs
      from tenant t order by t.slug`,
  )
  if (rows.length === 0)
    return [
      finding('warn', 'tenants', {
        says: 'there is none',
        mend: 'Make the first one with lend setup.',
      }),
    ]
  const closed = rows.filter(({ signs }) => !signs)
  return [
    well('tenants', `there are ${rows.length}`),
    ...closed.slice(0, 50).map(({ slug }) =>
      finding('warn', 'tenants', {
        says: `${slug} trusts no identity provider: nobody can sign in`,
        mend: `Register one, or turn one on: /t/${slug}/api/admin/identity-providers.`,
      }),
    ),
  ]
}

async function followingOf(db: Db, now: number): Promise<Finding> {
  const counts = await withRead(db, 'doctor', (tx) => deploymentCounts(tx, RE_EVALUATE_JOB))
  const waited = counts.oldestWaitingAt === null ? 0 : now - counts.oldestWaitingAt
  return waited <= WAITING_SECONDS_MAX
    ? well('re-evaluation', 'no change of access waits')
    : finding('wrong', 're-evaluation', {
        says: `a change of access has waited for ${Math.round(waited)} s`,
        mend: 'Start an instance; if one runs, look for "re-evaluation failed" in its log.',
      })
}

/** Everything that can be seen in a database. Reads only. */
export async function databaseFindings(
  db: Db,
  of: { readonly clock: Clock; readonly vault: Vault | undefined },
): Promise<readonly Finding[]> {
  const before = of.clock.now() / 1000
  let server: Server
  try {
    server = await readServer(db)
  } catch (error) {
    return [unreachable(error)]
  }
  const after = of.clock.now() / 1000
  const own = migrationsOf(await readApplied(db), migrations())
  const findings = [
    versionOf(server),
    ...usableOf(server),
    ...(db.kind === 'server'
      ? [connectionsOf(server), skewOf({ before, after, there: server.now })]
      : []),
    ...openOf(server),
    own,
  ]
  // What lies in the tables can only be told where they are as this program knows them.
  if (own.level !== 'ok') return findings
  return [
    ...findings,
    ...(await tenantsOf(db)),
    ...(await keptOf(db, of.vault)),
    ...(await proxiesOf(db)),
    await followingOf(db, after),
  ]
}
