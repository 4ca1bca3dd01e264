import { configFrom } from '../config.ts'
import { resealCredentials } from '../flows/reseal-credentials.ts'
import { systemClock, systemIds } from '../ids.ts'
import { openVault } from '../vault.ts'
import { openDatabase } from './database.ts'
import { CliProblem } from './run-file.ts'

/**
 * `lend reseal`: after `LEND_SECRET_KEYS` got a new first key on every instance. Exit status 0: the others may be taken out; 1:
 * a credential opens with none of them, and is named.
 */
export async function reseal(env: NodeJS.ProcessEnv, out: (line: string) => void): Promise<0 | 1> {
  const config = configFrom(env, process.cwd())
  if (config.secretKeys === null)
    throw new CliProblem('Set LEND_SECRET_KEYS as the server has it, the new key first.')
  const db = await openDatabase(env)
  try {
    const vault = openVault(config)
    const done = await resealCredentials({
      db,
      vault,
      clock: systemClock,
      ids: systemIds,
      notify: { kick: () => {}, subscribe: () => () => {} },
      publicUrl: config.publicUrl,
    })
    out(`${done.resealed} sealed anew with ${vault.kid}, ${done.current} were already`)
    for (const id of done.unopened) out(`${id} opens with none of these keys`)
    return done.unopened.length === 0 ? 0 : 1
  } finally {
    await db.close()
  }
}
