import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config, SecretKey } from './config.ts'
import type { Vault } from './ports.ts'

/**
 * Credentials that Lend presents to others are sealed in the database with AES-256-GCM under a key that is kept outside it.
 * A sealed text names its key, so that keys can be rotated: the first seals, all of them open.
 */
const NONCE_BYTES = 12
const TAG_BYTES = 16

const base64url = (bytes: Buffer): string => bytes.toString('base64url')

/** `v1.{kid}.{nonce}.{ciphertext and tag}`. The context is authenticated, so what is moved to another row does not open. */
export function createVault(keys: readonly [SecretKey, ...SecretKey[]]): Vault {
  const [current] = keys
  const known = new Map(keys.map(({ kid, key }) => [kid, Buffer.from(key, 'base64url')]))
  return {
    kid: current.kid,
    seal: (text, context) => {
      const nonce = randomBytes(NONCE_BYTES)
      const key = Buffer.from(current.key, 'base64url')
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
      const sealed = [cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return ['v1', current.kid, base64url(nonce), base64url(Buffer.concat(sealed))].join('.')
    },
    open: (sealed, context) => {
      const [version, kid = '', nonce = '', rest = ''] = sealed.split('.')
      const key = known.get(kid)
      const bytes = Buffer.from(rest, 'base64url')
      if (version !== 'v1' || key === undefined || bytes.length < TAG_BYTES) return null
      try {
        const iv = Buffer.from(nonce, 'base64url')
        const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
        decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-TAG_BYTES))
        const text = [decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]
        return Buffer.concat(text).toString('utf8')
      } catch {
        return null
      }
    },
  }
}

const newKey = (): SecretKey => ({
  kid: base64url(randomBytes(6)),
  key: base64url(randomBytes(32)),
})

/** The key that an instance made for itself, where it is kept. */
export const secretKeyFile = (dataDir: string): string => join(dataDir, 'secret-key.json')

/**
 * The vault of this instance: the setting's keys, or one of its own in a file beside the database and never in it. Kept
 * nowhere when nothing is kept.
 */
export function openVault(config: Pick<Config, 'secretKeys' | 'dataDir'>): Vault {
  const [first, ...others] = config.secretKeys ?? []
  if (first !== undefined) return createVault([first, ...others])
  const { dataDir } = config
  if (dataDir === null) return createVault([newKey()])
  const file = secretKeyFile(dataDir)
  if (existsSync(file)) return createVault([JSON.parse(readFileSync(file, 'utf8'))])
  const key = newKey()
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  writeFileSync(file, `${JSON.stringify(key)}\n`, { mode: 0o600 })
  return createVault([key])
}
