import { existsSync } from 'node:fs'
import type { Config } from '../../config.ts'
import type { Vault } from '../../ports.ts'
import { openVault, secretKeyFile } from '../../vault.ts'

/** The vault as far as its keys exist: none is made. Null: there is no key, or its file cannot be read. */
export function existingVault(config: Pick<Config, 'secretKeys' | 'dataDir'>): Vault | null {
  const { secretKeys, dataDir } = config
  if (secretKeys === null && (dataDir === null || !existsSync(secretKeyFile(dataDir)))) return null
  try {
    return openVault(config)
  } catch {
    return null
  }
}
