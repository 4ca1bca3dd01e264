import { bitsOf, meet } from '../../src/gateway/bits.ts'
import type { Options } from '../options.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'

const PERMISSIONS = 256
const HELD = 60
const NEEDED = 2
const ENDPOINTS = 64
const CHECKS = 200_000

const names = Array.from({ length: PERMISSIONS }, (_, i) => `service-${i % 12}.thing-${i}:read`)
const pick = (count: number, seed: number) =>
  Array.from({ length: count }, (_, i) => (seed * 37 + i * 101) % PERMISSIONS)

/** As roles that list permissions, and endpoints that list what they need: a look through both. */
const roles = Array.from({ length: 6 }, (_, role) =>
  pick(HELD / 6, role).map((i) => names[i] ?? ''),
)
const needs = Array.from({ length: ENDPOINTS }, (_, i) => pick(NEEDED, i + 500))
const needsByName = needs.map((all) => all.map((i) => names[i] ?? ''))
const needsByBit = needs.map(bitsOf)
const held = bitsOf(roles.flat().map((name) => names.indexOf(name)))

/** Checks a second. What was found is used, so that no compiler leaves the work out. */
function rate(check: (endpoint: number) => boolean, found: number): number {
  const began = performance.now()
  let seen = 0
  for (let i = 0; i < CHECKS; i++) if (check(i % ENDPOINTS)) seen++
  const seconds = (performance.now() - began) / 1000
  if (seen !== found) throw new Error(`found ${seen}, not ${found}`)
  return CHECKS / seconds
}

const byBits = (i: number): boolean => meet(needsByBit[i] ?? held, held)
const byNames = (i: number): boolean =>
  needsByName[i]?.some((need) => roles.some((role) => role.includes(need))) === true

/** G2: whether one of an endpoint's permissions is held, by bit sets against nested arrays of strings. */
export async function g2(options: Options): Promise<readonly Row[]> {
  let found = 0
  for (let i = 0; i < CHECKS; i++) if (byNames(i % ENDPOINTS)) found++
  const rounds = await alternate(
    [
      ['bit sets', async () => rate(byBits, found)],
      ['string arrays', async () => rate(byNames, found)],
    ],
    { rounds: options.rounds },
  )
  return [
    compare({
      row: 'G2',
      what: 'permission check by bit sets / nested arrays of strings, 60 held, 2 needed',
      unit: '/s',
      rounds,
      lend: 'bit sets',
      other: 'string arrays',
      reach: '≥ 20, and ≤ 200 ns (≥ 5,000,000/s)',
      least: 20,
    }),
  ]
}
