import { randomUUID } from 'node:crypto'
import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, SignJWT } from 'jose'
import type { Options } from '../options.ts'
import { cpuMeter, cpuNote, startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import { CONCURRENCY, type World, withWorld } from '../support/world.ts'
import { askedBy, callerFor, loadEach } from './gateway-load.ts'

/** Copies of one session's token under other ids, signed with the tenant's own key: each is good, and each is new to Lend. */
async function copiesOf(
  world: World,
  token: string,
): Promise<(count: number) => Promise<string[]>> {
  const { kid, alg, typ } = decodeProtectedHeader(token)
  const [row] = await world.scratch.sql`
    select private_jwk as jwk from signing_key where kid = ${kid ?? ''}`
  const key = await importJWK(row?.jwk as JWK, alg)
  const claims = decodeJwt(token)
  return (count) =>
    Promise.all(
      Array.from({ length: count }, () =>
        new SignJWT({ ...claims, jti: randomUUID() })
          .setProtectedHeader({ alg: alg ?? 'ES256', typ: typ ?? 'at+jwt', kid: kid ?? '' })
          .sign(key),
      ),
    )
}

/** G4: forward-auth with a token that was never seen, so that each is verified, against jose's verification alone. */
export async function g4(options: Options): Promise<readonly Row[]> {
  const peer = await startPeer('verify', {})
  try {
    return await withWorld({ name: 'g4', sessions: 4, ...options.profiled }, async (world) => {
      const caller = await callerFor(world)
      const url = `http://127.0.0.1:${world.lend.port}/t/acme/forward-auth/nginx`
      const mint = await copiesOf(world, caller.token)
      const seconds = options.quick ? 0.1 : options.seconds
      const lend = pace(seconds, { first: 500, most: 40_000 })
      const jose = pace(seconds, { first: 500, most: 60_000 })
      const [own, other] = [cpuMeter(world.lend), cpuMeter(peer)]
      const rounds = await alternate(
        [
          [
            'cold forward-auth',
            async () => {
              const tokens = await mint(lend.count())
              const headers = tokens.map((token) => askedBy({ ...caller, token }))
              const done = () => loadEach(url, { connections: CONCURRENCY, headers })
              return lend.seen(await own.during(done))
            },
          ],
          [
            'jwtVerify alone',
            async () =>
              jose.seen(
                await other.during(async () => {
                  const calls = jose.count()
                  const told = await peer.ask({ count: calls })
                  return {
                    perSecond: Number(told.perSecond),
                    calls,
                    cpuSeconds: Number(told.cpuSeconds),
                  }
                }),
              ),
          ],
        ],
        { rounds: options.rounds },
      )
      return [
        compare({
          row: 'G4',
          what: 'forward-auth with a token never seen, over HTTP / jose jwtVerify ES256 alone',
          unit: '/s',
          rounds,
          lend: 'cold forward-auth',
          other: 'jwtVerify alone',
          reach: '≥ 0.65',
          least: 0.65,
          note: cpuNote(own, other),
        }),
      ]
    })
  } finally {
    await peer.stop()
  }
}
