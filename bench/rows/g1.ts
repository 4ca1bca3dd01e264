import type { Options } from '../options.ts'
import { cpuMeter, cpuNote, startPeer } from '../support/machine.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import { withWorld } from '../support/world.ts'
import { askedBy, callerFor, load } from './gateway-load.ts'

/** G1: forward-auth, allowed and warm, its line written, against the framework answering nothing. */
export async function g1(options: Options): Promise<readonly Row[]> {
  const peer = await startPeer('bare', {})
  const seconds = options.quick ? 1 : options.seconds
  try {
    return await withWorld({ name: 'g1', sessions: 4, ...options.profiled }, async (world) => {
      const headers = askedBy(await callerFor(world))
      const lend = `http://127.0.0.1:${world.lend.port}/t/acme/forward-auth/nginx`
      const bare = `http://127.0.0.1:${peer.ready.port}/`
      const [own, other] = [cpuMeter(world.lend), cpuMeter(peer)]
      const rounds = await alternate(
        [
          ['forward-auth', () => own.during(() => load(lend, { headers, seconds }))],
          ['bare Hono', () => other.during(() => load(bare, { headers, seconds }))],
        ],
        { rounds: options.rounds },
      )
      return [
        compare({
          row: 'G1',
          what: 'forward-auth, allowed, warm / Hono answering an empty 200',
          unit: '/s',
          rounds,
          lend: 'forward-auth',
          other: 'bare Hono',
          reach: '≥ 0.65, then 0.80',
          least: 0.65,
          note: cpuNote(own, other),
        }),
      ]
    })
  } finally {
    await peer.stop()
  }
}
