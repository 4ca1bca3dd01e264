import { exportJWK, generateKeyPair, importJWK, type JWK, jwtVerify, SignJWT } from 'jose'
import { serve, timed } from '../support/peer.ts'

/** The floor of G4: jose's jwtVerify alone, ES256, 32 in flight, each token once. */
const IN_FLIGHT = 32
const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
const key = await importJWK((await exportJWK(publicKey)) as JWK, 'ES256')

/** As long as a session's token, so that as much is hashed. */
const padding = 'x'.repeat(900)
const minted = (i: number) =>
  new SignJWT({ padding, jti: String(i) })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' })
    .setIssuer('https://issuer.example')
    .setAudience('https://service.example')
    .setExpirationTime('15m')
    .sign(privateKey)

serve({ port: 0 }, async ({ count }) => {
  const n = Number(count)
  const tokens = await Promise.all(Array.from({ length: n }, (_, i) => minted(i)))
  const before = process.cpuUsage()
  const seconds = await timed(n, IN_FLIGHT, (i) =>
    jwtVerify(tokens[i] ?? '', key, {
      issuer: 'https://issuer.example',
      audience: 'https://service.example',
      typ: 'at+jwt',
    }),
  )
  const { user, system } = process.cpuUsage(before)
  return { perSecond: n / seconds, cpuSeconds: (user + system) / 1e6 }
})
