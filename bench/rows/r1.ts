import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Options } from '../options.ts'
import { type Lend, startLend, temporaryFolder } from '../support/lend.ts'
import { type Compared, median } from '../support/rounds.ts'
import { type World, withWorld } from '../support/world.ts'
import { askedBy, type Caller, callersFor } from './gateway-load.ts'

const OTHERS = 2
const SESSIONS = 40
const GIVEN_UP_MILLIS = 5_000

type Door = { readonly pool: Pool; readonly allows: (caller: Caller) => Promise<boolean> }

function doorOf(lend: Pick<Lend, 'origin'>): Door {
  const pool = new Pool(lend.origin, { connections: 2 })
  return {
    pool,
    allows: async (caller) => {
      const { statusCode, body } = await pool.request({
        method: 'GET',
        path: '/t/acme/forward-auth/nginx',
        headers: askedBy(caller),
      })
      await body.dump()
      if (![200, 401, 403].includes(statusCode)) throw new Error(`a door answered ${statusCode}`)
      return statusCode === 200
    },
  }
}

/** Asks one door again and again. Milliseconds until it first refused. */
async function refusedAfter(door: Door, caller: Caller, since: number): Promise<number> {
  while (performance.now() - since < GIVEN_UP_MILLIS) {
    if (!(await door.allows(caller))) return performance.now() - since
  }
  throw new Error('a session that ended went on being let through')
}

async function measure(world: World, own: Door, others: readonly Door[], sessions: number) {
  const millis: number[] = []
  for (const caller of await callersFor(world, sessions)) {
    for (const door of [own, ...others])
      if (!(await door.allows(caller))) throw new Error('a session that lives was refused')
    const { statusCode, body } = await own.pool.request({
      method: 'POST',
      path: `/t/acme/api/sessions/${caller.session.id}/end`,
      headers: {
        authorization: `Bearer ${caller.session.user.people}`,
        'content-type': 'application/json',
      },
      body: '{}',
    })
    await body.dump()
    if (statusCode !== 200) throw new Error(`the end answered ${statusCode}`)
    const since = performance.now()
    const [here] = await Promise.all([own.allows(caller), pause(0)])
    if (here) throw new Error('the instance that ended a session let it through afterwards')
    millis.push(...(await Promise.all(others.map((door) => refusedAfter(door, caller, since)))))
    process.stdout.write('.')
  }
  return millis
}

const p99 = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN

/** R1: from the end of a session to its refusal, where it was ended and at two other instances. */
export async function r1(options: Options): Promise<readonly Compared[]> {
  return withWorld({ name: 'r1', sessions: SESSIONS, ...options.profiled }, async (world) => {
    const folders = Array.from({ length: OTHERS }, temporaryFolder)
    const more: Lend[] = []
    const doors: Door[] = []
    try {
      for (const folder of folders)
        more.push(
          await startLend({
            databaseUrl: world.scratch.url,
            data: folder.path,
            publicUrl: world.lend.origin,
          }),
        )
      doors.push(...[world.lend, ...more].map(doorOf))
      const [own, ...others] = doors
      if (own === undefined) throw new Error('there is a door')
      const millis = await measure(world, own, others, options.quick ? 4 : SESSIONS)
      const row = (what: string, lend: number, most: number, reach: string): Compared => ({
        row: 'R1',
        what,
        unit: 'ms',
        lend,
        other: null,
        ratio: null,
        reach,
        met: lend <= most,
        rounds: millis.map((value) => ({ refused: value })),
      })
      return [
        row(
          'end of a session to refusal at another instance, median',
          median(millis),
          100,
          '≤ 100 ms, then 20',
        ),
        row('the same, 99th percentile', p99(millis), 1000, '≤ 1 s, then 100 ms'),
      ]
    } finally {
      await Promise.all(doors.map((door) => door.pool.close()))
      await Promise.all(more.map((lend) => lend.stop()))
      for (const folder of folders) folder.remove()
    }
  })
}
