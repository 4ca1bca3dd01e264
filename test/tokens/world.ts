import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrate } from 'drizzle-orm/pglite/migrator'
import type { JWK } from 'jose'
import type { TenantRef } from '../../src/callers.ts'
import { claimsOf, type SessionClaims } from '../../src/core/claims.ts'
import type { AgentId, GrantId, SessionId, TenantId, UserId } from '../../src/core/vocabulary.ts'
import { type Db, embeddedDb, withTx } from '../../src/db/tx.ts'
import type { Clock, Vault } from '../../src/ports.ts'
import { createTenantKeys, type SigningAlg } from '../../src/tokens/keys.ts'

export const START = 1_790_000_000

export const ACME: TenantRef = { id: 'ten_acme' as TenantId, slug: 'acme' }
export const GLOBEX: TenantRef = { id: 'ten_globex' as TenantId, slug: 'globex' }
export const issuerOf = (tenant: TenantRef): string => `http://localhost:4000/t/${tenant.slug}`
export const MCP = `${issuerOf(ACME)}/mcp`

/** A clock that stands still until it is moved. */
export type TestClock = Clock & {
  readonly seconds: () => number
  readonly forward: (seconds: number) => void
}

export function stoppedClock(): TestClock {
  let ms = START * 1000
  return {
    now: () => ms,
    seconds: () => Math.floor(ms / 1000),
    forward: (seconds) => {
      ms += seconds * 1000
    },
  }
}

/** An embedded database with two tenants that have keys: sealed, where there is a vault. */
export async function freshDb(vault?: Vault): Promise<Db> {
  const pglite = new PGlite()
  await migrate(drizzle(pglite), { migrationsFolder: 'drizzle' })
  const db = embeddedDb(pglite)
  await withTx(db, 'test', async (tx) => {
    for (const tenant of [ACME, GLOBEX]) {
      await tx.sql`insert into tenant (id, slug, name, created_at)
        values (${tenant.id}, ${tenant.slug}, ${tenant.slug}, to_timestamp(${START}::float8))`
      await createTenantKeys(tx, { tenantId: tenant.id, now: START, vault })
    }
  })
  return db
}

export function someClaims(
  now: number,
  more: {
    readonly subject?: 'session' | 'user'
    readonly grants?: number
    readonly child?: boolean
  } = {},
): SessionClaims {
  const level = (n: number) => ({
    sid: `ses_${n}` as SessionId,
    agentId: 'agt_1' as AgentId,
    template: `renewal-briefs@${n}`,
  })
  return claimsOf({
    issuer: issuerOf(ACME),
    audience: MCP,
    subject: more.subject ?? 'session',
    tenant: ACME.slug,
    userId: 'usr_maya' as UserId,
    path: more.child ? [level(1), level(2)] : [level(1)],
    sessionVersion: 7,
    sessionExpiresAt: now + 8 * 3600,
    grants: Array.from({ length: more.grants ?? 0 }, (_, n) => ({
      id: `grt_${n}` as GrantId,
      permission: n === 0 ? 'accounts:read' : 'accounts.rows:my_region',
      kind: n === 0 ? ('api' as const) : ('data' as const),
      ...(n === 0 ? {} : { narrow: { region: { $in: ['emea'] } }, resource: `dashboard/${n}` }),
      readOnly: n === 1,
    })),
    jti: 'jti-1',
    now,
  })
}

/** The tenant's active private key, which only the server has: with it a test can forge what the server never would. */
export async function stolenKey(
  db: Db,
  tenant: TenantRef,
  alg: SigningAlg,
): Promise<{ kid: string; key: KeyObject; publicJwk: JWK }> {
  const [row] = await withTx(
    db,
    'test',
    (tx) => tx.sql<{ kid: string; private_jwk: JWK; public_jwk: JWK }>`
      select kid, private_jwk, public_jwk from signing_key
      where tenant_id = ${tenant.id} and alg = ${alg} and status = 'active'`,
  )
  if (row === undefined) throw new Error('no key')
  const key = createPrivateKey({ key: row.private_jwk, format: 'jwk' })
  return { kid: row.kid, key, publicJwk: row.public_jwk }
}

export const b64 = (text: string | Buffer): string => Buffer.from(text).toString('base64url')

/** Signs any two texts as a compact JWS. */
export function forged(
  with_: { readonly key: KeyObject; readonly der?: boolean },
  header: string,
  payload: string,
): string {
  const signed = `${b64(header)}.${b64(payload)}`
  const signature = sign('sha256', Buffer.from(signed), {
    key: with_.key,
    dsaEncoding: with_.der ? 'der' : 'ieee-p1363',
  })
  return `${signed}.${b64(signature)}`
}
