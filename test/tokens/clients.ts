import { randomBytes } from 'node:crypto'
import { exportJWK, generateKeyPair } from 'jose'
import { type Db, json, withTx } from '../../src/db/tx.ts'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import { ACME, GLOBEX } from './world.ts'

export type Key = Awaited<ReturnType<typeof generateKeyPair>>['publicKey']

export const secret = randomBytes(32).toString('base64url')
export const AWKWARD = 'p+s:s w%rd/ü&='
export const pair = await generateKeyPair('ES256', { extractable: true })
export const otherPair = await generateKeyPair('ES256', { extractable: true })
export const rsaPair = await generateKeyPair('PS256', { extractable: true })
export const edPair = await generateKeyPair('Ed25519', { extractable: true })

/** The agents and the enforcement point that try to authenticate. */
export async function registerClients(db: Db): Promise<void> {
  const jwk = async (key: Key, kid?: string) => ({
    ...(await exportJWK(key)),
    ...(kid === undefined ? {} : { kid }),
  })
  await withTx(db, 'test', async (tx) => {
    const agent = (
      id: string,
      tenant: string,
      more: { secret?: string; jwks?: object; status?: string },
    ) =>
      tx.sql`insert into agent (id, tenant_id, name, status, secret_hash, jwks, app_clients, template_ids, created_at)
        values (${id}, ${tenant}, ${id}, ${more.status ?? 'active'},
          ${more.secret === undefined ? null : hashSecret(more.secret)},
          ${more.jwks === undefined ? null : json(more.jwks)}::text::jsonb, '{}', '{}', now())`
    await agent('agt_secret', ACME.id, { secret })
    await agent('agt_awkward', ACME.id, { secret: AWKWARD })
    await agent('agt_off', ACME.id, { secret, status: 'disabled' })
    await agent('agt_keys', ACME.id, {
      secret,
      jwks: {
        keys: [
          await jwk(pair.publicKey, 'k1'),
          await jwk(rsaPair.publicKey),
          await jwk(edPair.publicKey),
        ],
      },
    })
    await agent('agt_other', ACME.id, { jwks: { keys: [await jwk(otherPair.publicKey, 'k1')] } })
    await agent('agt_globex', GLOBEX.id, {
      secret,
      jwks: { keys: [await jwk(pair.publicKey, 'k1')] },
    })
    await tx.sql`insert into enforcement_point (id, tenant_id, name, secret_hash, services, created_at)
      values ('epc_1', ${ACME.id}, 'gateway', ${hashSecret(secret)}, '{accounts,dashboards}', now())`
  })
}
