import type { Options } from '../options.ts'
import { drive, type Sent } from '../support/drive.ts'
import { bytesATokenOf, inspectorOf, type Sample } from '../support/heap.ts'
import { median, type Row } from '../support/rounds.ts'
import { CONCURRENCY, reissue, type Session, type World, withWorld } from '../support/world.ts'
import { askedBy, callersFor, tokenOf } from './gateway-load.ts'

const SESSIONS = 200
const TOKENS = 1_000_000
const MINUTES = 30
/** What fills up to its bound has done so by then: 50,000 verified tokens, plans of statements, buffers. */
const WARM = 0.2
/** A leak of a token or of a record would be a kilobyte or more each time. */
const BYTES_A_TOKEN_MAX = 16

/** Forward-auth lets each of them through with a token that it has not seen. */
async function lookedAt(world: World, callers: Awaited<ReturnType<typeof callersFor>>) {
  const asked: Sent[] = []
  for (const caller of callers) {
    const token = await tokenOf(world, caller.session)
    const headers = askedBy({ ...caller, token })
    asked.push({ method: 'GET', path: '/t/acme/forward-auth/nginx', headers })
  }
  await drive(world.lend.origin, CONCURRENCY, asked)
}

/** Issues `tokens` in about `minutes`, as fast as that asks for, and lets forward-auth look at the newest now and then. */
async function issue(
  world: World,
  of: {
    readonly tokens: number
    readonly minutes: number
    readonly look: (n: number) => Promise<void>
  },
): Promise<void> {
  const sessions = await world.startSessions(SESSIONS)
  const callers = await callersFor(world, 20)
  const began = performance.now()
  const parts = 30
  let turn = 0
  for (let part = 1; part <= parts; part++) {
    const requests = Array.from({ length: Math.ceil(of.tokens / parts) }, () =>
      reissue(world, sessions[turn++ % sessions.length] as Session),
    )
    await drive(world.lend.origin, CONCURRENCY, requests)
    await lookedAt(world, callers)
    await of.look(turn)
    const due = (of.minutes * 60_000 * part) / parts - (performance.now() - began)
    if (due > 0) await new Promise((done) => setTimeout(done, due))
  }
}

/**
 * `npm run bench -- soak`: a million tokens in 30 minutes, or as long as they take; what the server holds after full
 * collections, looked at 30 times, must stay flat. Not among the rows that run by default, for its length.
 */
export async function soak(options: Options): Promise<readonly Row[]> {
  const [tokens, minutes] = options.quick ? [3_000, 0.5] : [TOKENS, MINUTES]
  const of = { name: 'soak', sessions: SESSIONS + 20, inspect: true, ...options.profiled }
  return withWorld(of, async (world) => {
    const inspector = await inspectorOf(world.lend.output())
    const samples: Sample[] = []
    const began = performance.now()
    await issue(world, {
      tokens,
      minutes,
      look: async (n) => {
        const { held, rss } = await inspector.memory()
        samples.push({ tokens: n, held, rss })
        // A run that breaks off has said what it saw.
        console.log(`${n} tokens: ${held} bytes held, ${rss} resident`)
      },
    })
    inspector.close()
    const slope = bytesATokenOf(samples.filter((one) => one.tokens >= tokens * WARM))
    const megabytes = (of: (s: Sample) => number) => Math.round(median(samples.map(of)) / 1e6)
    const seconds = (performance.now() - began) / 1000
    return [
      {
        row: 'soak',
        what: `${tokens.toLocaleString('en')} tokens in ${Math.round(seconds / 60)} min; tokens issued a second`,
        unit: '/s',
        lend: tokens / seconds,
        other: null,
        ratio: null,
        reach: `memory held after collection grows by ≤ ${BYTES_A_TOKEN_MAX} bytes a token`,
        met: slope <= BYTES_A_TOKEN_MAX,
        note: `${slope.toFixed(2)} bytes a token; held ${megabytes((s) => s.held)} MB, resident ${megabytes((s) => s.rss)} MB`,
        rounds: samples,
      },
    ]
  })
}
