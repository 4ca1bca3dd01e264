import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import type { Config } from './config.ts'
import { thumbprintOf } from './flows/checkpoint.ts'

/**
 * The key that signs this instance's checkpoints of the record. It is kept in a file beside the database and never in it,
 * so that who can write the one cannot re-sign the other. Kept nowhere when nothing is kept.
 */
export async function checkpointKey(dataDir: string | null): Promise<JWK> {
  const file = dataDir === null ? null : checkpointKeyFile(dataDir)
  if (file !== null && existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  const jwk = await newKey()
  if (dataDir !== null && file !== null) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    writeFileSync(file, `${JSON.stringify(jwk)}\n`, { mode: 0o600 })
  }
  return jwk
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  return exportJWK(privateKey)
}

/**
 * An instance's next key, in a file that must not be there yet. Answers with its thumbprint, so that all instances can be told of
 * it before anything is signed with it.
 */
export async function prepareCheckpointKey(file: string): Promise<string> {
  const jwk = await newKey()
  writeFileSync(file, `${JSON.stringify(jwk)}\n`, { mode: 0o600, flag: 'wx' })
  return thumbprintOf(jwk)
}

/** Where an instance's own key is kept. */
export const checkpointKeyFile = (dataDir: string): string => join(dataDir, 'checkpoint-key.json')

/**
 * Whose checkpoints of the record are believed. The embedded database has one process, so one key; on a server each
 * instance has its own, and the setting names them all. Unnamed, any key that stands beside a checkpoint is shown as it is.
 */
export async function trustedKeys(
  config: Pick<Config, 'checkpointKeys' | 'databaseUrl'>,
  own: JWK,
): Promise<readonly string[] | undefined> {
  if (config.checkpointKeys !== null) return [...config.checkpointKeys, await thumbprintOf(own)]
  return config.databaseUrl === null ? [await thumbprintOf(own)] : undefined
}
