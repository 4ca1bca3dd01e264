import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config, SecretKey } from './config.ts'
import type { Vault } from './ports.ts'

/**
 * What Lend has to keep in a form that it can read again is sealed in the database with AES-256-GCM under a key that is kept
 * outside it: private signing keys, and credentials that it presents to others. A sealed text names its key, so that keys can be
 * rotated: the first seals, all of them open.
 */
const NONCE_BYTES = 12
const TAG_BYTES = 16

const base64url = (bytes: Buffer): string => bytes.toString('base64url')

/** `v1.{kid}.{nonce}.{ciphertext and tag}`. The context is authenticated, so what is moved to another row does not open. */
export function createVault(
  keys: readonly [SecretKey, ...SecretKey[]],
  isShared: boolean = true,
): Vault {
  const [current] = keys
  const known = new Map(keys.map(({ kid, key }) => [kid, Buffer.from(key, 'base64url')]))
  return {
    kid: current.kid,
    isShared,
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

type Place = Pick<Config, 'secretKeys' | 'dataDir' | 'databaseUrl'>

const keyIn = (file: string): SecretKey => JSON.parse(readFileSync(file, 'utf8'))

function ownKey(dataDir: string | null): SecretKey {
  if (dataDir === null) return newKey()
  const file = secretKeyFile(dataDir)
  if (existsSync(file)) return keyIn(file)
  const key = newKey()
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  writeFileSync(file, `${JSON.stringify(key)}\n`, { mode: 0o600 })
  return key
}

/**
 * The vault of this instance: the setting's keys, or one of its own in a file beside the database and never in it. Kept
 * nowhere when nothing is kept. With the setting the file's key still opens what it sealed before.
 *
 * A key of one's own is good for all that use the embedded database, which has one process; on a server other instances would
 * not have it.
 */
export function openVault({ secretKeys, dataDir, databaseUrl }: Place): Vault {
  const [first, ...others] = secretKeys ?? []
  if (first === undefined) return createVault([ownKey(dataDir)], databaseUrl === null)
  const file = dataDir === null ? null : secretKeyFile(dataDir)
  const before = file !== null && existsSync(file) ? [keyIn(file)] : []
  const kept = before.filter(({ kid }) => ![first, ...others].some((one) => one.kid === kid))
  return createVault([first, ...others, ...kept])
}

/** The vault that every process on this database has, or none: then what it would seal could not be opened elsewhere. */
export const sharedVault = (place: Place): Vault | undefined =>
  place.secretKeys === null && place.databaseUrl !== null ? undefined : openVault(place)

/** The vault as far as its keys exist: none is made. Undefined: there is no key, or its file cannot be read. */
export function existingVault(place: Place): Vault | undefined {
  const { secretKeys, dataDir } = place
  if (secretKeys === null && (dataDir === null || !existsSync(secretKeyFile(dataDir))))
    return undefined
  try {
    return openVault(place)
  } catch {
    return undefined
  }
}
