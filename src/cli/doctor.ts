import { BadSetting, type Config, configFrom } from '../config.ts'
import { lookAtEmbedded, lookAtServer } from '../db/open.ts'
import { type Db, withRead } from '../db/tx.ts'
import { systemClock } from '../ids.ts'
import { busFindings } from '../ops/doctor/bus.ts'
import { databaseFindings, unreachable } from '../ops/doctor/database.ts'
import { type Finding, finding, type Level, well } from '../ops/doctor/finding.ts'
import { poolerFindings } from '../ops/doctor/pooler.ts'
import { providerFindings, publicUrlFindings } from '../ops/doctor/reach.ts'
import { dataFolder, proxies, sharedSettings, unknownSettings } from '../ops/doctor/settings.ts'
import { existingVault } from '../vault.ts'

/**
 * `lend doctor`: looks at everything that an instance with these settings depends on, and changes nothing. Exit status 0:
 * nothing is wrong (there may be warnings); 1: something is.
 */
type Out = (line: string) => void

const MARKS: Readonly<Record<Level, string>> = {
  ok: 'ok     ',
  warn: 'warn   ',
  wrong: 'WRONG  ',
  unknown: '?      ',
}

function tell(out: Out, findings: readonly Finding[]): void {
  for (const { level, check, says, mend } of findings) {
    out(`${MARKS[level]}${check}: ${says}`)
    if (mend !== undefined) out(`       ${mend}`)
  }
  const count = (level: Level) => findings.filter((one) => one.level === level).length
  out(
    `${count('ok')} well, ${count('warn')} warnings, ${count('wrong')} wrong, ${count('unknown')} not seen`,
  )
}

/** Null with a finding: there is no database to look at. */
async function look(config: Config): Promise<Db | Finding> {
  if (config.databaseUrl !== null)
    return lookAtServer(config.databaseUrl, { isPooled: config.databaseDirectUrl !== null })
  if (config.dataDir === null) return well('database', 'embedded, in memory only')
  try {
    return (
      (await lookAtEmbedded(config.dataDir)) ??
      well('database', 'there is none yet; the first start makes it')
    )
  } catch (error) {
    if (!(error instanceof BadSetting)) return unreachable(error)
    return finding('unknown', 'database', {
      says: 'a running server has it open',
      mend: 'Ask that server’s /healthz, or stop it to have the database looked at.',
    })
  }
}

async function anyTenant(db: Db): Promise<string | null> {
  const [row] = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<{ slug: string }>`select slug from tenant order by created_at, id limit 1`,
  )
  return row?.slug ?? null
}

async function inside(config: Config, db: Db): Promise<readonly Finding[]> {
  const vault = existingVault(config)
  const seen = [
    ...(await databaseFindings(db, { clock: systemClock, vault })),
    ...(await poolerFindings(db, config.databaseDirectUrl)),
  ]
  const isWhole = seen.some((one) => one.check === 'migrations' && one.level === 'ok')
  const { publicUrl } = config
  const own = await publicUrlFindings(publicUrl, isWhole ? await anyTenant(db) : null)
  if (!isWhole) return [...seen, ...own]
  const isUp = own.some((one) => one.check === 'address' && one.level === 'ok')
  return [...seen, ...own, ...(await providerFindings(db, { clock: systemClock, publicUrl, isUp }))]
}

async function found(config: Config): Promise<readonly Finding[]> {
  const outside = [
    ...sharedSettings(config),
    ...proxies(config),
    ...(await dataFolder(config)),
    ...(await busFindings(config)),
  ]
  const db = await look(config)
  if ('check' in db) return [...outside, db, ...(await publicUrlFindings(config.publicUrl, null))]
  try {
    return [...outside, ...(await inside(config, db))]
  } finally {
    await db.close()
  }
}

export async function doctor(
  env: NodeJS.ProcessEnv,
  out: Out,
  of: { readonly json: boolean },
): Promise<0 | 1> {
  const findings: Finding[] = [...unknownSettings(env)]
  try {
    const config = configFrom(env, process.cwd())
    findings.unshift(well('settings', 'each has a value that can be used'))
    findings.push(...(await found(config)))
  } catch (error) {
    if (!(error instanceof BadSetting)) throw error
    const mend = 'Mend it and look again: with it the server does not start.'
    findings.unshift(finding('wrong', 'settings', { says: error.message, mend }))
  }
  if (of.json) out(JSON.stringify(findings, null, 2))
  else tell(out, findings)
  return findings.some(({ level }) => level === 'wrong') ? 1 : 0
}
