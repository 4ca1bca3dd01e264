import { randomUUID } from 'node:crypto'
import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, SignJWT } from 'jose'
import type { Options } from '../options.ts'
import { drive } from '../support/drive.ts'
import { startPeer } from '../support/machine.ts'
import { alternate, compare, pace, type Row } from '../support/rounds.ts'
import { CONCURRENCY, type World, withWorld } from '../support/world.ts'
import { askedBy, callerFor } from './gateway-load.ts'

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
      const mint = await copiesOf(world, caller.token)
      const seconds = options.quick ? 0.1 : options.seconds
      const lend = pace(seconds, { first: 500, most: 40_000 })
      const jose = pace(seconds, { first: 500, most: 60_000 })
      const rounds = await alternate(
        [
          [
            'cold forward-auth',
            async () => {
              const tokens = await mint(lend.count())
              const path = '/t/acme/forward-auth/nginx'
              const sent = tokens.map((token) => ({
                method: 'GET' as const,
                path,
                headers: askedBy({ ...caller, token }),
              }))
              const { perSecond } = await drive(world.lend.origin, CONCURRENCY, sent)
              return lend.seen(perSecond)
            },
          ],
          [
            'jwtVerify alone',
            async () => jose.seen(Number((await peer.ask({ count: jose.count() })).perSecond)),
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
        }),
      ]
    })
  } finally {
    await peer.stop()
  }
}
