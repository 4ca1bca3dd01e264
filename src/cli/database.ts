import { configFrom } from '../config.ts'
import { openEmbedded, openServer } from '../db/open.ts'
import type { Db } from '../db/tx.ts'
import { CliProblem } from './run-file.ts'

/**
 * Opens the database that the server's own settings name, for the commands that work without a
 * server. Which one must be said: a new empty folder would answer every question with nothing.
 * Throws when a running server holds the folder.
 */
export async function openDatabase(env: NodeJS.ProcessEnv): Promise<Db> {
  const config = configFrom(env, process.cwd())
  if (config.databaseUrl !== null) return openServer(config.databaseUrl, config.databaseDirectUrl)
  if (env.LEND_DATA === undefined || env.LEND_DATA === '' || config.dataDir === null)
    throw new CliProblem(
      'Set DATABASE_URL to the server’s database, or LEND_DATA to its data folder.',
    )
  return openEmbedded(config.dataDir)
}
