import type { Options } from '../options.ts'
import { cpuMeter, cpuNote, startPeer } from '../support/machine.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import { withWorld } from '../support/world.ts'
import { askedBy, callerFor, load } from './gateway-load.ts'

/** G6: a bearer token checked and an empty answer, against an OAuth provider that looks its tokens up in memory. */
export async function g6(options: Options): Promise<readonly Row[]> {
  const peer = await startPeer('workers', {})
  const seconds = options.quick ? 1 : options.seconds
  try {
    return await withWorld({ name: 'g6', sessions: 4, ...options.profiled }, async (world) => {
      const headers = askedBy(await callerFor(world))
      const lend = `http://127.0.0.1:${world.lend.port}/t/acme/forward-auth/nginx`
      // As it calls itself: its tokens are for that address.
      const other = `http://localhost:${peer.ready.port}/api/thing`
      const bearer = { authorization: `Bearer ${String(peer.ready.token)}`, accept: '*/*' }
      const [own, theirs] = [cpuMeter(world.lend), cpuMeter(peer)]
      const rounds = await alternate(
        [
          ['forward-auth', () => own.during(() => load(lend, { headers, seconds }))],
          [
            'workers-oauth-provider',
            () => theirs.during(() => load(other, { headers: bearer, seconds })),
          ],
        ],
        { rounds: options.rounds },
      )
      return [
        compare({
          row: 'G6',
          what: 'bearer check with an empty answer / @cloudflare/workers-oauth-provider, memory KV',
          unit: '/s',
          rounds,
          lend: 'forward-auth',
          other: 'workers-oauth-provider',
          reach: '≥ 4, then 6',
          least: 4,
          note: cpuNote(own, theirs),
        }),
      ]
    })
  } finally {
    await peer.stop()
  }
}
