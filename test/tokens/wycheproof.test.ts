import { readFileSync } from 'node:fs'
import type { JWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { assertionSignedBy } from '../../src/tokens/client-auth.ts'
import { checkRegisteredJwks } from '../../src/tokens/client-keys.ts'
import { compactParts } from '../../src/tokens/compact.ts'
import { type SigningAlg, verifierKey } from '../../src/tokens/keys.ts'
import { signatureHolds } from '../../src/tokens/verify.ts'

/**
 * C2SP wycheproof's JWS vectors over both verifiers: the synchronous one of session tokens and jose's, which checks
 * clients' assertions. The payloads are no claims, so an assertion that verifies comes back as null for that reason;
 * what is compared is only whether a signature is ever accepted wrongly, and for our own algorithms also whether a good
 * one is refused.
 */
type Vector = { tcId: number; comment: string; jws: string; result: 'valid' | 'invalid' }
type Group = { comment: string; public?: JWK; tests: Vector[] }
const file = new URL('../vectors/wycheproof/json_web_signature_test.json', import.meta.url)
const groups = (JSON.parse(readFileSync(file, 'utf8')) as { testGroups: Group[] }).testGroups

const asymmetric = groups.flatMap(({ public: key, tests, comment }) =>
  key === undefined || (key.kty !== 'EC' && key.kty !== 'RSA')
    ? []
    : tests.map((vector) => ({ key, vector, group: comment })),
)
const isOurs = (alg: unknown): alg is SigningAlg => alg === 'ES256' || alg === 'RS256'

/**
 * Vectors whose text equals a valid one: the harm is in how their author's key was used, which no verifier can see.
 * They are marked invalid for a JSON member order or the like that does not change the compact form.
 */
const SAME_AS_VALID = new Set(
  asymmetric
    .filter(({ vector }) =>
      asymmetric.some((o) => o.vector.result === 'valid' && o.vector.jws === vector.jws),
    )
    .map(({ vector }) => vector.tcId),
)

const algIn = (jws: string): unknown => {
  try {
    return JSON.parse(compactParts(jws)?.header ?? '{}').alg
  } catch {
    return undefined
  }
}

describe('the synchronous verifier', () => {
  const cases = asymmetric.filter(({ key }) => isOurs(key.alg))
  it(`agrees with all ${cases.length} vectors for its algorithms`, () => {
    const differing = cases.filter(({ key, vector }) => {
      const parts = compactParts(vector.jws)
      const alg = isOurs(key.alg) ? key.alg : 'ES256'
      const held =
        parts !== null &&
        algIn(vector.jws) === alg &&
        signatureHolds(parts, verifierKey(key, 'k', alg))
      return held !== (vector.result === 'valid') && !SAME_AS_VALID.has(vector.tcId)
    })
    expect(differing.map(({ vector }) => `${vector.tcId} ${vector.comment}`)).toEqual([])
    expect(cases.length).toBeGreaterThan(250)
  })
})

describe('the verifier of assertions', () => {
  it(`accepts nothing wrong of ${asymmetric.length} vectors`, async () => {
    const accepted = []
    for (const { key, vector } of asymmetric) {
      const registered = { keys: [key] }
      if (vector.result === 'valid' || checkRegisteredJwks(registered).length > 0) continue
      if (SAME_AS_VALID.has(vector.tcId)) continue
      if ((await assertionSignedBy(vector.jws, registered)) !== null) accepted.push(vector.tcId)
    }
    expect(accepted).toEqual([])
  })
})
