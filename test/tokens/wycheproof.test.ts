import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import type { JWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { isSignedByOneOf } from '../../src/tokens/client-auth.ts'
import { compactParts } from '../../src/tokens/compact.ts'
import { type SigningAlg, verifierKey } from '../../src/tokens/keys.ts'
import { signatureHolds } from '../../src/tokens/verify.ts'

/**
 * C2SP wycheproof's JWS vectors over both verifiers: the synchronous one of session tokens, and jose's, which checks
 * clients' assertions. The file is Apache-2.0, unchanged, at commit dac1dd4 of C2SP/wycheproof.
 */
type Vector = { tcId: number; comment: string; jws: string; result: 'valid' | 'invalid' }
type Group = { comment: string; public?: JWK; tests: Vector[] }
const file = new URL('../vectors/wycheproof/json_web_signature_test.json', import.meta.url)
const groups = (JSON.parse(readFileSync(file, 'utf8')) as { testGroups: Group[] }).testGroups

const asymmetric = groups.flatMap(({ public: key, tests }) =>
  key === undefined ? [] : tests.map((vector) => ({ key, vector })),
)

const headerOf = (jws: string): { alg?: unknown } => {
  try {
    return JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString())
  } catch {
    return {}
  }
}

/** Good signatures that we refuse on purpose: the payload can be no claims, or the key is registered for another alg. */
function refusedOnPurpose(key: JWK, { jws }: Vector): boolean {
  const payload = Buffer.from(jws.split('.')[1] ?? '', 'base64url')
  return payload.length === 0 || !isUtf8(payload) || headerOf(jws).alg !== key.alg
}

const wanted = (key: JWK, vector: Vector): boolean =>
  vector.result === 'valid' && !refusedOnPurpose(key, vector)

describe('the synchronous verifier', () => {
  const isOurs = (alg: unknown): alg is SigningAlg => alg === 'ES256' || alg === 'RS256'
  const cases = asymmetric.flatMap(({ key, vector }) =>
    isOurs(key.alg) ? [{ key, vector, alg: key.alg }] : [],
  )

  it(`accepts what is good and nothing else of ${cases.length} vectors`, () => {
    const wrong = cases.filter(({ key, vector, alg }) => {
      const parts = compactParts(vector.jws)
      const accepted =
        parts !== null &&
        headerOf(vector.jws).alg === alg &&
        signatureHolds(parts, verifierKey(key, 'k', alg))
      return accepted !== wanted(key, vector)
    })
    expect(wrong.map(({ vector }) => vector)).toEqual([])
    expect(cases.filter(({ key, vector }) => wanted(key, vector)).length).toBeGreaterThan(5)
    expect(cases.length).toBeGreaterThan(250)
  })
})

describe('the verifier of assertions', () => {
  it(`accepts what is good and nothing else of ${asymmetric.length} vectors`, async () => {
    const wrong = []
    for (const { key, vector } of asymmetric) {
      const accepted = await isSignedByOneOf({ keys: [key] }, vector.jws)
      if (accepted !== wanted(key, vector)) wrong.push(vector)
    }
    expect(wrong).toEqual([])
    expect(asymmetric.filter(({ key, vector }) => wanted(key, vector)).length).toBeGreaterThan(15)
  })
})
