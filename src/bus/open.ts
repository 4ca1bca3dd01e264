import type { Config } from '../config.ts'
import type { Db } from '../db/tx.ts'
import type { OpenBus } from '../ports.ts'
import { postgresBus } from './postgres.ts'
import { channelOf, redisBus } from './redis.ts'

/** The bus that the settings name; null: the embedded database, which has no other instance to tell. */
export function busOf(
  of: Pick<Config, 'publicUrl' | 'databaseUrl' | 'databaseDirectUrl' | 'redisUrl'>,
  db: Db,
): OpenBus | null {
  if (of.redisUrl !== null) return redisBus(of.redisUrl, channelOf(of.publicUrl))
  return of.databaseUrl === null ? null : postgresBus(db, of.databaseDirectUrl ?? of.databaseUrl)
}
