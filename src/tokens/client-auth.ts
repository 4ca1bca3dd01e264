import { createHash, timingSafeEqual } from 'node:crypto'
import { compactVerify, type JWK } from 'jose'
import type { TenantRef } from '../callers.ts'
import { unreachable } from '../core/assert.ts'
import { ASSERTION_LIFE_SECONDS_MAX } from '../core/limits.ts'
import type { AgentId, ServiceAccountId } from '../core/vocabulary.ts'
import { shareRead } from '../db/batches.ts'
import { RESTORED } from '../db/restored.ts'
import { type Db, hotRead, type Tx, withTx } from '../db/tx.ts'
import { type Failed, fail, ok, type Result } from '../fault.ts'
import type { Provider } from '../identity/login.ts'
import type { Clock } from '../ports.ts'
import {
  algsOf,
  checkRegisteredJwks,
  DUMMY_JWK,
  isAssertionAlg,
  keyProblem,
  keysIn,
} from './client-keys.ts'
import { compactParts, type JsonObject, jsonObject } from './compact.ts'

export { checkRegisteredJwks }

/** Who authenticated. A disabled agent or service account is refused by the flow, which holds the lock. */
export type ClientIdentity =
  | {
      readonly kind: 'agent'
      readonly id: AgentId
      readonly status: 'active' | 'disabled'
      readonly trusts: Trusts
    }
  | {
      readonly kind: 'enforcement_point'
      readonly id: string
      readonly services: readonly string[]
      /** What tokens that it may ask about are for: its services' resources. */
      readonly resources: readonly string[]
      /** May ask what a person themselves may do. */
      readonly asksAboutUsers?: boolean
    }
  | {
      readonly kind: 'service_account'
      readonly id: ServiceAccountId
      /** Raised when a credential is replaced, so that the issue can tell that this one was. */
      readonly version: number
    }
  | {
      /** Publishes one service's part of the catalog, and does nothing else. */
      readonly kind: 'service_client'
      readonly id: string
      readonly services: readonly string[]
    }

/** Whose tokens an agent's app may exchange: read with its credential, since every start needs both. */
export type Trusts = {
  /** Its clients at the tenant's identity providers. */
  readonly appClients: readonly string[]
  /** The identity providers that the tenant trusts now. */
  readonly providers: readonly Provider[]
}

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
/** Clients' clocks are not ours. */
const SKEW_SECONDS = 30
const JTI_LENGTH_MAX = 255
const SECRET_LENGTH_MAX = 512
const BASIC_LENGTH_MAX = 4096
const CLIENT_ID = /^(?:agt|epc|svc|scl)_[A-Za-z0-9_-]{1,64}$/
const UNSTORABLE = /\p{Cc}|\p{Cs}/u

/** How a secret is kept: SHA-256 in hex. Enough for 256 random bits, which no dictionary holds. */
export const hashSecret = (secret: string): string =>
  createHash('sha256').update(secret).digest('hex')

const NO_SECRET = hashSecret('')

// One fault for an unknown client, a bad secret and a bad assertion.
const refused = (): Failed => fail('client_unauthenticated')
const malformed = (detail: string): Failed => fail('request_malformed', { detail })

type Presented =
  | { readonly by: 'secret'; readonly id: string; readonly secret: string }
  | { readonly by: 'assertion'; readonly id: string; readonly assertion: string }

/** `application/x-www-form-urlencoded`, as RFC 6749 section 2.3.1 wants each half of the header. */
function formDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return null
  }
}

function basic(authorization: string): Presented | null {
  const [, token] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization) ?? []
  if (token === undefined || authorization.length > BASIC_LENGTH_MAX) return null
  const pair = Buffer.from(token, 'base64').toString()
  const colon = pair.indexOf(':')
  if (colon < 1) return null
  const id = formDecoded(pair.slice(0, colon))
  const secret = formDecoded(pair.slice(colon + 1))
  return id === null || secret === null ? null : { by: 'secret', id, secret }
}

const NAMES = ['client_id', 'client_secret', 'client_assertion', 'client_assertion_type'] as const

/** Reads what the client presents: exactly one method (RFC 6749 section 2.3), no parameter twice (3.2). */
function presented(authorization: string | undefined, form: URLSearchParams): Result<Presented> {
  const twice = NAMES.find((name) => form.getAll(name).length > 1)
  if (twice !== undefined) return malformed(`The parameter ${twice} is given more than once.`)
  const [clientId, secret, assertion, assertionType] = NAMES.map(
    // A parameter without a value counts as omitted (RFC 6749 section 3.2).
    (name) => form.get(name) || undefined,
  )
  const asserts = assertion !== undefined || assertionType !== undefined
  const methods = [authorization !== undefined, secret !== undefined, asserts]
  const used = methods.filter(Boolean).length
  if (used > 1) return malformed('A client authenticates in exactly one way.')
  if (used === 0) return refused()

  if (asserts) {
    if (assertionType !== ASSERTION_TYPE)
      return malformed(`client_assertion_type must be ${ASSERTION_TYPE}.`)
    if (assertion === undefined) return malformed('client_assertion is missing.')
    const id = subjectOf(assertion)
    return id === null ? refused() : consistent({ by: 'assertion', id, assertion }, clientId)
  }
  if (authorization !== undefined) {
    const read = basic(authorization)
    return read === null ? refused() : consistent(read, clientId)
  }
  if (clientId === undefined || secret === undefined) return malformed('client_id is missing.')
  return ok({ by: 'secret', id: clientId, secret })
}

/** A `client_id` beside a credential is optional and must name the same client (RFC 7521 section 4.2). */
const consistent = (what: Presented, clientId: string | undefined): Result<Presented> =>
  clientId === undefined || clientId === what.id ? ok(what) : refused()

/** The client that an assertion claims to be, to find its keys by. Not trusted until one of them verifies it. */
function subjectOf(assertion: string): string | null {
  const parts = compactParts(assertion)
  const sub = parts === null ? undefined : jsonObject(parts.payload)?.sub
  return typeof sub === 'string' ? sub : null
}

type ClientRow = ClientIdentity & {
  readonly secret_hash: string | null
  /** The secret before this one, while it still opens. */
  readonly previous_hash: string | null
  readonly jwks: unknown
}

type LookedFor = {
  /** Of the lookup: a client's id is one tenant's alone, and so is an issuer. */
  readonly id: string
  readonly clientId: string
  readonly clock: Clock
  readonly issuer: string
  readonly tenant: TenantRef
}

/** A disabled enforcement point is not found: it has no flow that would refuse it. */
async function clientById(
  tx: Tx,
  { clientId: id, clock, issuer, tenant }: LookedFor,
): Promise<ClientRow | undefined> {
  const now = clock.now() / 1000
  const rows = await tx.sql<ClientRow>`
    select 'agent' as kind, id, status, null::text[] as services, null::text[] as resources, false as "asksAboutUsers", secret_hash,
        case when previous_secret_until > to_timestamp(${now}::float8) then previous_secret_hash end as previous_hash,
        0 as version, jwks,
        json_build_object('appClients', app_clients, 'providers', (
          select coalesce(json_agg(json_build_object('id', p.id, 'issuer', p.issuer, 'audience', p.audience,
            'firstPartyClients', p.first_party_clients, 'createsUsers', p.creates_users,
            'privateNetwork', p.private_network)), '[]')
          from identity_provider p where p.tenant_id = ${tenant.id} and p.status = 'active')) as trusts
      from agent where tenant_id = ${tenant.id} and id = ${id}
    union all
    select 'enforcement_point', e.id, null, e.services, array(
          select r.resource from resource_server r where r.tenant_id = e.tenant_id and r.services && e.services
          union all
          select ${issuer}::text || '/tools/' || t.name || '/mcp' from tool_server t
          where t.tenant_id = e.tenant_id and t.name = any(e.services)), e.asks_about_users, e.secret_hash,
        case when previous_secret_until > to_timestamp(${now}::float8) then previous_secret_hash end, 0, null, null
      from enforcement_point e where tenant_id = ${tenant.id} and id = ${id} and status = 'active'
    union all
    select 'service_account', id, null, null, null, false, secret_hash,
        case when previous_secret_until > to_timestamp(${now}::float8) then previous_secret_hash end, version, jwks, null
      from service_account where tenant_id = ${tenant.id} and id = ${id}
    union all
    select 'service_client', id, status, array[service_id], null, false, secret_hash,
        case when previous_secret_until > to_timestamp(${now}::float8) then previous_secret_hash end, 0, jwks, null
      from service_client where tenant_id = ${tenant.id} and id = ${id} and status = 'active'`
  return rows[0]
}

/** An app has many requests under way, each of which has to find it. */
const loadClient = shareRead((db, of: LookedFor) =>
  hotRead(db, 'load_client', (tx) => clientById(tx, of)),
)

/**
 * Authenticates an OAuth client of a tenant (RFC 6749 section 2.3, RFC 7523): `private_key_jwt`, `client_secret_basic`
 * or `client_secret_post`. `authorization` is the request's header, `form` its body.
 *
 * Faults: `request_malformed` if the credentials of two methods or half of one are there, `client_unauthenticated` for
 * everything else, none at all included, and always alike. An assertion is used up when its signature and claims have
 * been verified, whatever comes after. Throws only if the database cannot be reached.
 */
export async function authenticateClient(
  on: {
    readonly db: Db
    readonly clock: Clock
    readonly issuer: string
    readonly tenant: TenantRef
  },
  request: { readonly authorization: string | undefined; readonly form: URLSearchParams },
): Promise<Result<ClientIdentity>> {
  const read = presented(request.authorization, request.form)
  if (!read.ok) return read
  const what = read.value
  // Only what can be an id reaches the database, which would throw at a NUL.
  const client = CLIENT_ID.test(what.id)
    ? await loadClient(on.db, { ...on, id: `${on.issuer} ${what.id}`, clientId: what.id })
    : undefined
  const proven =
    what.by === 'secret'
      ? secretIsOf(client, what.secret)
      : await assertionIsOf(on, { client, assertion: what.assertion })
  if (!proven || client === undefined) return refused()
  return ok(identityOf(client))
}

function identityOf(client: ClientRow): ClientIdentity {
  switch (client.kind) {
    case 'agent':
      return { kind: client.kind, id: client.id, status: client.status, trusts: client.trusts }
    case 'service_account':
      return { kind: client.kind, id: client.id, version: client.version }
    case 'service_client':
      return { kind: client.kind, id: client.id, services: client.services }
    case 'enforcement_point':
      return {
        kind: client.kind,
        id: client.id,
        services: client.services,
        resources: client.resources,
        ...(client.asksAboutUsers ? { asksAboutUsers: true } : {}),
      }
    default:
      return unreachable(client)
  }
}

/** Compares in constant time, and does the same work where there is nothing to compare with. */
function secretIsOf(client: ClientRow | undefined, secret: string): boolean {
  const shown = Buffer.from(hashSecret(secret.slice(0, SECRET_LENGTH_MAX)))
  const isKept = (kept: string | null): boolean =>
    timingSafeEqual(shown, Buffer.from(kept ?? NO_SECRET)) && kept !== null
  const [own, previous] = [
    isKept(client?.secret_hash ?? null),
    isKept(client?.previous_hash ?? null),
  ]
  return (own || previous) && secret.length > 0 && secret.length <= SECRET_LENGTH_MAX
}

async function assertionIsOf(
  on: {
    readonly db: Db
    readonly clock: Clock
    readonly issuer: string
    readonly tenant: TenantRef
  },
  presented: { readonly client: ClientRow | undefined; readonly assertion: string },
): Promise<boolean> {
  const { client, assertion } = presented
  const signed = await isSignedByOneOf(client?.jwks, assertion)
  const payload = jsonObject(compactParts(assertion)?.payload ?? '')
  if (!signed || payload === null || client === undefined) return false
  const now = Math.floor(on.clock.now() / 1000)
  const use = useOf(payload, { clientId: client.id, issuer: on.issuer, now })
  if (use === null) return false
  return withTx(on.db, 'use_assertion', (tx) =>
    useAssertion(tx, { tenant: on.tenant, clientId: client.id, ...use }),
  )
}

/**
 * Whether one of the registered keys signed an assertion. The algorithm must be one of the key's own, so a public key
 * is never taken for a shared secret. `jwks` is what the client registered, if anything.
 */
export async function isSignedByOneOf(jwks: unknown, assertion: string): Promise<boolean> {
  const parts = compactParts(assertion)
  const header = parts === null ? null : jsonObject(parts.header)
  if (parts === null || header === null || !isAssertionAlg(header.alg)) return false
  // Another kind of token by the same key is no assertion (RFC 8725 section 3.11).
  if (header.typ !== undefined && !TYPES.has(header.typ)) return false
  const { alg, kid } = header
  const fitting = keysIn(jwks).filter(
    (key) =>
      (kid === undefined || key.kid === undefined || key.kid === kid) &&
      algsOf(key).includes(alg) &&
      // Checked when it was registered, and again here: this is where an unsound key would do harm.
      keyProblem(key) === null,
  )
  for (const key of fitting) {
    if (await signedBy(assertion, key, alg)) return true
  }
  // An unknown client costs a verification too, with the algorithm that most clients use.
  if (fitting.length === 0) await signedBy(assertion, DUMMY_JWK, alg)
  return false
}

/** RFC 7523bis names the last one; before it, clients say JWT or nothing. */
const TYPES: ReadonlySet<unknown> = new Set([
  'JWT',
  'jwt',
  'client-authentication+jwt',
  'application/client-authentication+jwt',
])

async function signedBy(assertion: string, key: JWK, alg: string): Promise<boolean> {
  try {
    await compactVerify(assertion, { ...key, alg }, { algorithms: [alg] })
    return true
  } catch {
    return false
  }
}

const isTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value)

/** What to remember of an assertion with good claims (RFC 7523 section 3), or null. Times in seconds. */
function useOf(
  claims: JsonObject,
  expected: { readonly clientId: string; readonly issuer: string; readonly now: number },
): { readonly jti: string; readonly expiresAt: number; readonly issuedAt: number } | null {
  const { clientId, issuer, now } = expected
  const { jti, exp, iat, nbf } = claims
  if (claims.iss !== clientId || claims.sub !== clientId) return null
  // Our issuer alone, as one string: an assertion that is also good elsewhere could be replayed from there.
  if (claims.aud !== issuer) return null
  if (!isTime(exp) || exp <= now - SKEW_SECONDS) return null
  if (exp > now + ASSERTION_LIFE_SECONDS_MAX + SKEW_SECONDS) return null
  if (iat !== undefined && !(isTime(iat) && iat <= now + SKEW_SECONDS)) return null
  if (nbf !== undefined && !(isTime(nbf) && nbf <= now + SKEW_SECONDS)) return null
  if (typeof jti !== 'string' || jti.length < 1 || jti.length > JTI_LENGTH_MAX) return null
  // At the earliest, where it does not say.
  const issuedAt = isTime(iat) ? iat : exp - ASSERTION_LIFE_SECONDS_MAX
  return UNSTORABLE.test(jti) ? null : { jti, expiresAt: exp, issuedAt }
}

/**
 * Uses an assertion up; false if it was used before. The insert is the check, so of two at once only one succeeds. One from
 * before a restore may have been used without that being known any more (I19).
 */
async function useAssertion(
  tx: Tx,
  use: {
    readonly tenant: TenantRef
    readonly clientId: string
    readonly jti: string
    readonly expiresAt: number
    readonly issuedAt: number
  },
): Promise<boolean> {
  // Kept for as long as it would be accepted, and a little more.
  const keptUntil = use.expiresAt + 2 * SKEW_SECONDS
  const rows = await tx.sql`
    insert into client_assertion (tenant_id, client_id, jti, expires_at)
    select ${use.tenant.id}::text, ${use.clientId}::text, ${use.jti}::text, to_timestamp(${keptUntil}::float8)
    where not exists (select from installation
      where name = ${RESTORED} and (value ->> 'at')::float8 >= ${use.issuedAt}::float8 * 1000)
    on conflict do nothing returning jti`
  return rows.length === 1
}

/** Forgets assertions that are out of date anyway, and returns how many. `now` in seconds. */
export async function sweepAssertions(tx: Tx, now: number): Promise<number> {
  const gone =
    await tx.sql`delete from client_assertion where expires_at < to_timestamp(${now}::float8)
    returning jti`
  return gone.length
}
