import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, type JWK } from 'jose'

/**
 * The key that signs this instance's checkpoints of the record. It is kept in a file beside the database and never in it,
 * so that who can write the one cannot re-sign the other. Kept nowhere when nothing is kept.
 */
export async function checkpointKey(dataDir: string | null): Promise<JWK> {
  const file = dataDir === null ? null : join(dataDir, 'checkpoint-key.json')
  if (file !== null && existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const jwk = await exportJWK(privateKey)
  if (dataDir !== null && file !== null) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    writeFileSync(file, `${JSON.stringify(jwk)}\n`, { mode: 0o600 })
  }
  return jwk
}
