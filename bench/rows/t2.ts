import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import { basic, drive, form } from '../support/drive.ts'
import { startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import { addAllowRules, CONCURRENCY, reissue, type Session, withWorld } from '../support/world.ts'
import { costOf } from './cost.ts'
import { holdFive } from './held.ts'

const SESSIONS = 200

/** T2: re-issue with five grants held, against a token exchange in memory and against the bare round trips. */
export async function t2(options: Options): Promise<readonly Row[]> {
  const roundTrips = (await costOf('reissue')).roundTrips
  const most = options.quick ? 200 : 30_000
  return withWorld({ name: 't2', sessions: SESSIONS, ...options.profiled }, async (world) => {
    await addAllowRules(world.scratch.sql)
    const sessions = await holdFive(world, options.quick ? 40 : SESSIONS)
    const oidc = await startPeer('oidc', {})
    const raw = await startPeer('raw', { DATABASE_URL: world.scratch.url })
    const loaded = await raw.ask({ sessions: 'load' })
    if (Number(loaded.loaded) < sessions.length) throw new Error('the raw peer sees other sessions')
    const paces = {
      lend: pace(options.seconds, { first: 200, most }),
      oidc: pace(options.seconds, { first: 500, most }),
      raw: pace(options.seconds, { first: 500, most }),
    }
    let turn = 0
    const exchange = form(
      '/token',
      {
        grant_type: String(oidc.ready.exchange),
        subject_token: String(oidc.ready.subjectToken),
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      },
      basic(String(oidc.ready.id), String(oidc.ready.secret)),
    )
    const rate = async (origin: string, requests: Parameters<typeof drive>[2]) =>
      (await drive(origin, CONCURRENCY, requests)).perSecond
    const same = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)
    try {
      const rounds = await alternate(
        [
          [
            'Lend',
            async () => {
              const requests = Array.from({ length: paces.lend.count() }, () =>
                reissue(world, sessions[turn++ % sessions.length] as Session),
              )
              return paces.lend.seen(await rate(world.lend.origin, requests))
            },
          ],
          [
            'oidc-provider',
            async () =>
              paces.oidc.seen(
                await rate(
                  `http://127.0.0.1:${oidc.ready.port}`,
                  same(paces.oidc.count(), exchange),
                ),
              ),
          ],
          [
            'raw route',
            async () =>
              paces.raw.seen(
                await rate(
                  `http://127.0.0.1:${raw.ready.port}`,
                  same(paces.raw.count(), { path: `/reissue/${roundTrips}` }),
                ),
              ),
          ],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            await settle(world.scratch.sql)
            options.pinned(await world.scratch.pin())
          },
        },
      )
      const common = { row: 'T2', unit: '/s' as const, rounds, lend: 'Lend' }
      return [
        compare({
          ...common,
          what: 're-issue with 5 grants / token exchange as a custom grant, in memory',
          other: 'oidc-provider',
          reach: '≥ 1.2, then 2.0',
          least: 1.2,
        }),
        compare({
          ...common,
          what: `re-issue with 5 grants / a raw route with ${roundTrips} round trips and one signature`,
          other: 'raw route',
          reach: '≥ 0.60',
          least: 0.6,
        }),
      ]
    } finally {
      await Promise.all([oidc.stop(), raw.stop()])
    }
  })
}
