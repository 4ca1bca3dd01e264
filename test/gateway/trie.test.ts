import fc from 'fast-check'
import { expect, test } from 'vitest'
import { segmentsOf, trieOf } from '../../src/gateway/trie.ts'

type Entry = { readonly method: string; readonly pattern: string; readonly value: string }

/** The rule said another way: every pattern that matches, and of those the one that is exact where they first differ. */
function naive(entries: readonly Entry[], method: string, path: readonly string[]): string | null {
  const wild = (segment: string | undefined) => segment?.startsWith('{') === true
  const matching = entries.filter((entry) => {
    const segments = segmentsOf(entry.pattern)
    return (
      entry.method === method &&
      segments.length === path.length &&
      segments.every((s, i) => (wild(s) ? path[i] !== '' : s === path[i]))
    )
  })
  const rank = ({ pattern }: Entry) =>
    segmentsOf(pattern)
      .map((s) => (wild(s) ? '1' : '0'))
      .join('')
  const best = matching.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))[0]
  return best?.value ?? null
}

const word = fc.constantFrom('a', 'b', 'c')
const method = fc.constantFrom('GET', 'POST')
const pattern = fc
  .array(fc.oneof(word, fc.constantFrom('{x}', '{y}')), { maxLength: 5 })
  .map((segments) => `/${segments.join('/')}`)
const path = fc.array(fc.oneof({ weight: 6, arbitrary: word }, fc.constant('')), { maxLength: 5 })

test('the trie agrees with a naive matcher', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(method, pattern), { maxLength: 30 }),
      method,
      path,
      (rows, m, p) => {
        // Two patterns that differ only in a wildcard's name are one; the later stands.
        const shape = (text: string) => text.replaceAll(/\{\w+\}/g, '{}')
        const unique = new Map(rows.map(([one, text]) => [`${one} ${shape(text)}`, { one, text }]))
        const entries = [...unique.values()].map(({ one, text }) => ({
          method: one,
          pattern: text,
          value: `${one} ${text}`,
        }))
        expect(trieOf(entries).find(m, p)).toBe(naive(entries, m, p))
      },
    ),
    { numRuns: 5000 },
  )
})

const entry = (text: string): Entry => {
  const [one = '', two = ''] = text.split(' ')
  return { method: one, pattern: two, value: text }
}

test.each([
  ['GET', 'users/me', 'GET /users/me'],
  ['GET', 'users/17', 'GET /users/{id}'],
  ['DELETE', 'users/me', 'DELETE /users/{id}'],
  ['GET', 'a/b/c', 'GET /a/{x}/c'],
  ['GET', 'users', null],
  ['GET', 'users/', null],
  ['GET', 'users/17/', null],
  ['PUT', 'users/17', null],
  ['GET', '', null],
])('%s %s is %s', (one, text, found) => {
  const trie = trieOf(
    ['GET /users/me', 'GET /users/{id}', 'DELETE /users/{id}', 'GET /a/b/d', 'GET /a/{x}/c'].map(
      entry,
    ),
  )
  expect(trie.find(one, text === '' ? [] : text.split('/'))).toBe(found)
})
