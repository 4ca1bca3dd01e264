import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointKeyFile } from '../../checkpoint-key.ts'
import type { Config } from '../../config.ts'
import { RESTORING } from '../../db/open.ts'
import { thumbprintOf } from '../../flows/checkpoint.ts'
import { secretKeyFile } from '../../vault.ts'
import { type Finding, finding, well } from './finding.ts'

/** Everything that the server and the command line read and that begins like one of ours. */
const KNOWN = new Set([
  'LEND_DATA',
  'LEND_DEMO',
  'LEND_CHECKPOINT_KEYS',
  'LEND_SECRET_KEYS',
  'LEND_METRICS_PORT',
  'LEND_METRICS_HOST',
  'LEND_DRAIN_SECONDS',
  'LEND_LOG',
  'LEND_DEPLOYMENT',
  'LEND_ALERT_WEBHOOK',
  'LEND_ALERT_SECRET',
  'LEND_RATE_LIMITS',
  'LEND_TRUSTED_PROXIES',
  'LEND_TOKEN',
  'LEND_CLIENT_SECRET',
  'LEND_CLIENT_KEY',
  'LEND_MCP_AUTHORIZATION',
])
const OTHERS = 0o077

/** A setting that is mistyped is not wrong, it is not there: the default is used without a word. */
export function unknownSettings(env: NodeJS.ProcessEnv): readonly Finding[] {
  const unknown = Object.keys(env)
    .filter((name) => name.startsWith('LEND_') && !name.startsWith('LEND_TEST_'))
    .filter((name) => !KNOWN.has(name))
  return unknown.map((name) =>
    finding('warn', 'settings', {
      says: `${name} is set, but nothing reads it`,
      mend: `Look for a slip of the pen; the README lists the settings.`,
    }),
  )
}

/** What instances that share a database must agree on. */
export function sharedSettings(config: Config): readonly Finding[] {
  if (config.databaseUrl === null) return []
  return [
    config.secretKeys === null
      ? finding('warn', 'secret keys', {
          says: 'signing keys and secrets of web clients cannot be sealed, and each instance seals credentials of tool servers with a key of its own',
          mend: 'Set the same LEND_SECRET_KEYS on all instances, then run lend reseal.',
        })
      : well('secret keys', `${config.secretKeys.length} named; the first seals`),
    config.checkpointKeys === null
      ? finding('warn', 'checkpoint keys', {
          says: 'any key that signed a checkpoint is believed',
          mend: 'Set LEND_CHECKPOINT_KEYS to the thumbprints of all instances’ keys.',
        })
      : well('checkpoint keys', `${config.checkpointKeys.length} named`),
  ]
}

/** Clients reach an instance of https through a proxy: without its address, noise cannot be told apart by who makes it. */
export const proxies = (config: Config): readonly Finding[] =>
  config.loopbackOnly
    ? []
    : config.trustedProxies.length > 0
      ? [well('trusted proxies', `${config.trustedProxies.join(', ')} may say who they speak for`)]
      : [
          finding('warn', 'trusted proxies', {
            says: 'refused requests are not counted by address, since the proxy in front is not known',
            mend: 'Set LEND_TRUSTED_PROXIES to the addresses of the proxies in front, and have them set X-Forwarded-For.',
          }),
        ]

type KeyFile = { readonly check: string; readonly file: string; readonly what: string }

function keyFile({ check, file, what }: KeyFile): Finding {
  if (!existsSync(file)) return well(check, 'there is none yet; the first start makes it')
  if ((statSync(file).mode & OTHERS) !== 0)
    return finding('wrong', check, {
      says: `${file} can be read by others on this machine`,
      mend: `chmod 600 ${file}; if somebody may have read it, ${what}.`,
    })
  try {
    JSON.parse(readFileSync(file, 'utf8'))
    return well(check, `${file} is this instance’s own`)
  } catch {
    return finding('wrong', check, {
      says: `${file} cannot be read as a key`,
      mend: 'Bring it back from a backup: the start stops at it.',
    })
  }
}

/** Folder and key files. Makes and changes nothing. */
export async function dataFolder(config: Config, access = accessSync): Promise<readonly Finding[]> {
  const { dataDir } = config
  if (dataDir === null)
    return [
      finding('warn', 'data folder', {
        says: 'LEND_DATA=memory keeps nothing: keys are new with every start',
        mend: 'Name a folder in LEND_DATA.',
      }),
    ]
  if (!existsSync(dataDir)) return [well('data folder', `${dataDir} is made at the first start`)]
  if (!statSync(dataDir).isDirectory())
    return [
      finding('wrong', 'data folder', {
        says: `${dataDir} is no folder`,
        mend: 'Name a folder in LEND_DATA.',
      }),
    ]
  if (existsSync(join(dataDir, RESTORING)))
    return [
      finding('wrong', 'data folder', {
        says: `${dataDir} holds a restore that was not finished`,
        mend: 'Empty it and run lend restore again: no server starts on it.',
      }),
    ]
  try {
    access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch {
    return [
      finding('wrong', 'data folder', {
        says: `${dataDir} cannot be written by this user`,
        mend: `Give it to the user that runs Lend, or name another folder in LEND_DATA.`,
      }),
    ]
  }
  const checkpoint = keyFile({
    check: 'checkpoint key',
    file: checkpointKeyFile(dataDir),
    what: 'stop, move it away, start, and name the new one’s thumbprint in LEND_CHECKPOINT_KEYS',
  })
  const secret = keyFile({
    check: 'secret key',
    file: secretKeyFile(dataDir),
    what: 'set LEND_SECRET_KEYS with a new key first and run lend reseal',
  })
  return [
    well('data folder', dataDir),
    checkpoint.level === 'ok' ? await ownCheckpointKey(config, dataDir, checkpoint) : checkpoint,
    ...(config.secretKeys === null ? [secret] : []),
  ]
}

/** Whether the others believe what this instance signs. */
async function ownCheckpointKey(config: Config, dataDir: string, was: Finding): Promise<Finding> {
  const file = checkpointKeyFile(dataDir)
  if (config.checkpointKeys === null || !existsSync(file)) return was
  const thumbprint = await thumbprintOf(JSON.parse(readFileSync(file, 'utf8')))
  if (config.checkpointKeys.includes(thumbprint)) return was
  return finding('wrong', 'checkpoint key', {
    says: 'the key of this instance is not among LEND_CHECKPOINT_KEYS, so others will not believe its checkpoints',
    mend: `Add ${thumbprint} to LEND_CHECKPOINT_KEYS on every instance.`,
  })
}
