import { describe, expect, test } from 'vitest'
import { drive } from '../../bench/support/drive.ts'
import { bytesATokenOf, inspectorOf, type Sample } from '../../bench/support/heap.ts'
import {
  CONCURRENCY,
  introspection,
  reissue,
  type Session,
  toolCall,
  type World,
  withWorld,
} from '../../bench/support/world.ts'
import { postgresIsLeftOut, SERVER_URL } from '../support/postgres.ts'

/** A short soak, by the benchmark's own means: its row `soak` is the long one. */
const title = 'the memory of a server that has issued many tokens'
const SESSIONS = 40
/** By then code is compiled, statements are planned and connections are open. */
const WARMING = 4_000
const [PARTS, PART] = [10, 1_000]
/** What wanders between two looks is a few tens; an entry of 200 bytes in a map that nobody empties is over 250. */
const BYTES_A_TOKEN_MAX = 100

/** So many tokens, and one in ten of them used where it is checked live, and by its agent. */
async function issue(world: World, sessions: readonly Session[], tokens: number): Promise<void> {
  const ofSession = (session: Session, n: number) => {
    if (n % 10 !== 0) return [reissue(world, session)]
    return [
      reissue(world, session),
      n % 20 === 0 ? introspection(world, session) : toolCall(session, 'iam.my_access', {}),
    ]
  }
  const rounds = Array.from({ length: tokens / sessions.length }, (_, round) => round)
  const sent = rounds.flatMap((round) => sessions.flatMap((one, n) => ofSession(one, round + n)))
  await drive(world.lend.origin, CONCURRENCY, sent)
}

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    test('does not grow with each of them', async () => {
      const of = { name: 'memory', sessions: SESSIONS, inspect: true, server: SERVER_URL }
      const samples = await withWorld(of, async (world) => {
        const sessions = await world.startSessions(SESSIONS)
        const inspector = await inspectorOf(world.lend.output())
        await issue(world, sessions, WARMING)
        const seen: Sample[] = [{ tokens: 0, ...(await inspector.memory()) }]
        for (let part = 1; part <= PARTS; part++) {
          await issue(world, sessions, PART)
          seen.push({ tokens: part * PART, ...(await inspector.memory()) })
        }
        inspector.close()
        return seen
      })
      expect(bytesATokenOf(samples), JSON.stringify(samples)).toBeLessThan(BYTES_A_TOKEN_MAX)
    }, 600_000)
  },
)
