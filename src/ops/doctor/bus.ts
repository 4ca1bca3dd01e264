import { channelOf, tryRedis } from '../../bus/redis.ts'
import type { Config } from '../../config.ts'
import { codeOf, type Finding, finding, well } from './finding.ts'

const KICK_MILLIS_MAX = 5_000

/** Whether instances can wake each other through Redis, where that is set. Without it they do through the database. */
export async function busFindings(
  config: Pick<Config, 'redisUrl' | 'databaseUrl' | 'publicUrl'>,
): Promise<readonly Finding[]> {
  const { redisUrl, databaseUrl, publicUrl } = config
  if (redisUrl === null) return []
  if (databaseUrl === null)
    return [
      finding('warn', 'bus', {
        says: 'REDIS_URL is set, but the embedded database has no other instance to wake',
        mend: 'Take it out, or name a Postgres server in DATABASE_URL.',
      }),
    ]
  try {
    await tryRedis(redisUrl, channelOf(publicUrl), KICK_MILLIS_MAX)
    return [well('bus', 'a kick through Redis comes back')]
  } catch (error) {
    // Redis says what is wrong by a word in front: NOAUTH, WRONGPASS, NOPERM. What follows could quote the URL.
    const [, word] = /^([A-Z]{4,}) /.exec(error instanceof Error ? error.message : '') ?? []
    return [
      finding('wrong', 'bus', {
        says: `no kick comes through Redis (${codeOf(error) ?? word ?? 'no answer within 5 s'})`,
        mend: 'Look at REDIS_URL; its user needs SUBSCRIBE and PUBLISH on the channel lend:{PUBLIC_URL}. Until then waits last up to two seconds longer.',
      }),
    ]
  }
}
