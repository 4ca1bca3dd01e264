import { configFrom } from '../config.ts'
import type { SealedKind } from '../db/sealed.ts'
import { type Resealed, reseal as resealAll } from '../flows/reseal.ts'
import { systemClock, systemIds } from '../ids.ts'
import { sharedVault } from '../vault.ts'
import { openDatabase } from './database.ts'
import { CliProblem } from './run-file.ts'

const KINDS: Readonly<Record<SealedKind, string>> = {
  signing_key: 'signing keys',
  identity_provider: 'secrets of web clients',
  tool_server: 'credentials of tool servers',
}

function tell(out: (line: string) => void, { kind, ...done }: Resealed): void {
  const { sealed, resealed, current, unopened } = done
  const parts = [
    ...(sealed > 0 ? [`${sealed} lay in clear and are sealed`] : []),
    `${resealed} sealed anew`,
    `${current} were already`,
  ]
  out(`${KINDS[kind]}: ${parts.join(', ')}`)
  for (const id of unopened) out(`  ${id} opens with none of these keys`)
}

/**
 * `lend reseal`: once no instance of a version that reads only what is in clear runs any more, and after `LEND_SECRET_KEYS` got a
 * new first key on every instance. Exit status 0: all is sealed with the first key, so the others may be taken out; 1: something
 * opens with none of them, and is named.
 */
export async function reseal(env: NodeJS.ProcessEnv, out: (line: string) => void): Promise<0 | 1> {
  const config = configFrom(env, process.cwd())
  if (config.secretKeys === null && config.databaseUrl !== null)
    throw new CliProblem('Set LEND_SECRET_KEYS as the server has it, the new key first.')
  const db = await openDatabase(env)
  try {
    const vault = sharedVault(config)
    if (vault === undefined) throw new CliProblem('There is no key to seal with.')
    const done = await resealAll({
      ...{ db, vault, clock: systemClock, ids: systemIds, publicUrl: config.publicUrl },
      notify: { kick: () => {}, subscribe: () => () => {} },
    })
    out(`the key that seals is ${vault.kid}`)
    for (const one of done) tell(out, one)
    return done.every(({ unopened }) => unopened.length === 0) ? 0 : 1
  } finally {
    await db.close()
  }
}
