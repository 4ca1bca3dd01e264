import { createHash } from 'node:crypto'
import type { TenantId, UserId } from '../core/vocabulary.ts'
import type { Kept } from './sealed.ts'
import type { Tx } from './tx.ts'

const hashed = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/** A tenant's identity provider where Lend's web page has a client of its own. */
export type WebProvider = {
  readonly id: string
  readonly issuer: string
  readonly privateNetwork: boolean
  readonly createsUsers: boolean
  readonly clientId: string
  /** Sealed for the provider's row. */
  readonly clientSecret: Kept
}

export async function webProvider(
  tx: Tx,
  tenantId: TenantId,
  id?: string,
): Promise<WebProvider | null> {
  const [row] = await tx.sql<WebProvider>`
    select id, issuer, private_network as "privateNetwork", creates_users as "createsUsers",
      web_client_id as "clientId",
      json_build_object('sealed', sealed_web_client_secret, 'clear', web_client_secret) as "clientSecret"
    from identity_provider
    where tenant_id = ${tenantId} and status = 'active' and web_client_id is not null
      and num_nonnulls(web_client_secret, sealed_web_client_secret) = 1 and (${id ?? null}::text is null or id = ${id ?? null})
    order by created_at, id limit 1`
  return row ?? null
}

export type SignIn = {
  readonly state: string
  readonly browser: string
  readonly tenantId: TenantId
  readonly providerId: string
  readonly codeVerifier: string
  readonly nonce: string
  readonly returnTo: string
  readonly expiresAt: number
}

export async function insertSignIn(tx: Tx, s: SignIn): Promise<void> {
  await tx.sql`
    insert into sign_in (state_hash, tenant_id, browser_hash, provider_id, code_verifier, nonce, return_to,
      expires_at)
    values (${hashed(s.state)}, ${s.tenantId}, ${hashed(s.browser)}, ${s.providerId}, ${s.codeVerifier},
      ${s.nonce}, ${s.returnTo}, to_timestamp(${s.expiresAt}::float8))`
}

/** Takes a sign-in out of the table, so that it is used once, and only by the browser that began it. */
export async function takeSignIn(
  tx: Tx,
  of: {
    readonly state: string
    readonly browser: string
    readonly tenantId: TenantId
    readonly now: number
  },
): Promise<Pick<SignIn, 'providerId' | 'codeVerifier' | 'nonce' | 'returnTo'> | null> {
  const [row] = await tx.sql<Pick<SignIn, 'providerId' | 'codeVerifier' | 'nonce' | 'returnTo'>>`
    delete from sign_in
    where state_hash = ${hashed(of.state)} and browser_hash = ${hashed(of.browser)}
      and tenant_id = ${of.tenantId} and expires_at > to_timestamp(${of.now}::float8)
    returning provider_id as "providerId", code_verifier as "codeVerifier", nonce,
      return_to as "returnTo"`
  return row ?? null
}

export type NewBrowserSession = {
  readonly secret: string
  readonly tenantId: TenantId
  readonly userId: UserId
  readonly providerId: string
  readonly clientId: string
  readonly idToken: string
  readonly now: number
  readonly expiresAt: number
}

export async function insertBrowserSession(tx: Tx, s: NewBrowserSession): Promise<void> {
  await tx.sql`
    insert into browser_session (id_hash, tenant_id, user_id, provider_id, client_id, id_token, created_at,
      expires_at)
    values (${hashed(s.secret)}, ${s.tenantId}, ${s.userId}, ${s.providerId}, ${s.clientId}, ${s.idToken},
      to_timestamp(${s.now}::float8), to_timestamp(${s.expiresAt}::float8))`
}

export type SignedIn = {
  readonly userId: UserId
  readonly login: string
  readonly name: string
  readonly staffRoles: readonly string[]
  readonly active: boolean
  readonly clientId: string
  readonly expiresAt: number
}

/** Who is signed in with this cookie at this tenant, as they are now; a provider that was turned off signs nobody in. */
export async function browserSession(
  tx: Tx,
  of: { readonly secret: string; readonly tenantId: TenantId; readonly now: number },
): Promise<SignedIn | null> {
  const [row] = await tx.sql<SignedIn>`
    select u.id as "userId", u.login, u.name, u.staff_roles as "staffRoles", u.status = 'active' as active,
      b.client_id as "clientId", extract(epoch from b.expires_at)::float8 as "expiresAt"
    from browser_session b
    join app_user u on u.tenant_id = b.tenant_id and u.id = b.user_id
    join identity_provider p on p.id = b.provider_id and p.status = 'active'
    where b.id_hash = ${hashed(of.secret)} and b.tenant_id = ${of.tenantId}
      and b.expires_at > to_timestamp(${of.now}::float8)`
  return row ?? null
}

/** Signs a browser out. Null when it was not signed in. */
export async function deleteBrowserSession(
  tx: Tx,
  of: { readonly secret: string; readonly tenantId: TenantId },
): Promise<{ readonly providerId: string; readonly idToken: string } | null> {
  const [row] = await tx.sql<{ providerId: string; idToken: string }>`
    delete from browser_session where id_hash = ${hashed(of.secret)} and tenant_id = ${of.tenantId}
    returning provider_id as "providerId", id_token as "idToken"`
  return row ?? null
}

export async function sweepBrowserSessions(tx: Tx, now: number): Promise<void> {
  await tx.sql`delete from sign_in where expires_at <= to_timestamp(${now}::float8)`
  await tx.sql`delete from browser_session where expires_at <= to_timestamp(${now}::float8)`
}
