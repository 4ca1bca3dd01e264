import fc from 'fast-check'
import type { Answer, Effect } from './reference.ts'
import {
  ACCESS,
  ACCESS_AT_FIRST,
  BOARD_A,
  BOARDS,
  ENABLED,
  KEEPABLE,
  MAIL,
  MAIL_A,
  type Mode,
  PAY,
  PAY_NEAR,
  PERMISSIONS,
  ROWS,
  ROWS_NEAR,
  SERVERS,
  SOUND_WISHES,
  TEMPLATE_NAMES,
  TIGHT_LIMITS,
  WISHES,
} from './universe.ts'

/**
 * What can happen, as plain data that shrinks and prints well. A `pick` is a number that is resolved, when its turn comes,
 * to one of the sessions, requests or rules that are there then: below 100 among the live ones, above among all.
 */
export type Pick = number

/** How a user's loss or gain is made and whether anybody looks: the admin flow and its feed row, or a bare row. */
export type How = 'flow' | 'flow and feed' | 'row' | 'row and look'

export type Command =
  | {
      readonly do: 'start'
      readonly user: number
      readonly template: string
      readonly version: number | null
      readonly by: 'exchange' | 'user'
      readonly mode: Mode
      readonly modeFor: number | null
      readonly claim: boolean
    }
  | { readonly do: 'claim'; readonly at: Pick; readonly as: 'own' | 'agent' | 'user' }
  | {
      readonly do: 'ask'
      readonly at: Pick
      readonly stale: boolean
      readonly items: readonly number[]
    }
  | {
      readonly do: 'answer'
      readonly request: Pick
      readonly answers: readonly Answer[]
      readonly wrong: (typeof WRONG_ANSWERS)[number] | null
      readonly ruleFor: number | null
    }
  | {
      readonly do: 'release'
      readonly at: Pick
      readonly stale: boolean
      readonly what: Pick
      readonly how: 'grant' | 'item' | 'permission'
    }
  | { readonly do: 'take back'; readonly at: Pick; readonly what: Pick; readonly as: Who }
  | { readonly do: 'my access'; readonly at: Pick; readonly stale: boolean }
  | { readonly do: 'introspect'; readonly at: Pick }
  | {
      readonly do: 'child'
      readonly at: Pick
      readonly stale: boolean
      readonly template: string
      readonly readOnly: boolean
      readonly claim: boolean
    }
  | {
      readonly do: 'end'
      readonly at: Pick
      readonly stale: boolean
      readonly as: 'agent' | 'client' | Who
    }
  | { readonly do: 'reissue'; readonly at: Pick; readonly audience: string | null }
  | {
      readonly do: 'exchange'
      readonly at: Pick
      readonly stale: boolean
      readonly audience: string | null
    }
  | {
      readonly do: 'access'
      readonly user: number
      readonly item: number
      readonly how: How
    }
  | { readonly do: 'user status'; readonly user: number; readonly on: boolean; readonly how: How }
  | { readonly do: 'agent status'; readonly on: boolean; readonly look: boolean }
  | {
      readonly do: 'rule'
      readonly user: number
      readonly template: string
      readonly effect: Effect
      readonly item: number
      readonly for: number | null
    }
  | { readonly do: 'forget rule'; readonly rule: Pick; readonly as: 'own' | 'other' | 'tenant' }
  | { readonly do: 'suspend'; readonly template: string }
  | {
      readonly do: 'narrow'
      readonly template: string
      readonly on: boolean
      readonly adopted: number
      readonly dropped: readonly number[]
      readonly modes: readonly Mode[]
      readonly limits: number
      readonly look: boolean
    }
  | {
      readonly do: 'catalog'
      readonly permission: string
      readonly set: 'sensitive' | 'plain' | 'never' | 'delegable' | 'retired' | 'back'
      readonly look: boolean
    }
  | {
      readonly do: 'freeze'
      readonly scope: 'tenant' | 'template' | 'agent' | 'user'
      readonly which: number
      readonly on: boolean
    }
  | {
      readonly do: 'tighten'
      readonly at: Pick
      readonly mode: Mode
      readonly for: number | null
      readonly as: 'own' | 'other'
    }
  | { readonly do: 'tick'; readonly seconds: number; readonly sweep: boolean }
  | { readonly do: 'look again' }
  | {
      readonly do: 'other tenant'
      readonly at: Pick
      readonly what: (typeof OTHER_TENANT)[number]
    }

/** A person: the session's own user, another of the tenant, an org admin, somebody of another tenant. */
export type Who = 'own' | 'other' | 'admin' | 'stranger'

export const WRONG_ANSWERS = [
  'digest',
  'missing',
  'extra',
  'other user',
  'other tenant',
  'sensitive always',
] as const

export const OTHER_TENANT = [
  'ask',
  'my access',
  'release',
  'child',
  'end',
  'reissue',
  'other agent reissues',
  'other agent exchanges',
  'claim',
  'freeze',
  'unfreeze',
  'tighten',
] as const

const pick = fc.nat(109)
const live = fc.nat(99)
const stale = fc.boolean()
const mostly = <T>(usual: T, ...rare: readonly T[]) =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(usual) }, ...rare.map((r) => fc.constant(r)))
const one = <T>(values: readonly T[]) => fc.constantFrom(...values)
const user = mostly(0, 1)
const root = fc.oneof(
  { weight: 20, arbitrary: fc.constant('m-root') },
  { weight: 4, arbitrary: fc.constant('m-other') },
  { weight: 2, arbitrary: one(TEMPLATE_NAMES) },
)
const mode = one(['ask', 'auto', 'bypass'] as const)
/** From here on a wish is one of the sequence's few favourites, so that requests, rules and answers meet. */
const FAVOURITE = 1000
const wish = fc.oneof(
  { weight: 40, arbitrary: fc.nat({ max: 99 }).map((n) => FAVOURITE + n) },
  { weight: 20, arbitrary: fc.nat(SOUND_WISHES - 1) },
  { weight: 1, arbitrary: fc.integer({ min: SOUND_WISHES, max: WISHES.length - 1 }) },
)
const answer = one<Answer>([
  'allow_once',
  'allow_once',
  'allow_once',
  'allow_once',
  'allow_always',
  'allow_always',
  'deny',
  'deny_always',
])
const seconds = one([1, 30, 61, 121, 301, 601, 900, 1201, 1801, 3001, 3600])
const some = fc.option(seconds, { freq: 4 })
const audience = fc.oneof(
  { weight: 5, arbitrary: fc.constant(null) },
  { weight: 4, arbitrary: one(Object.keys(SERVERS)) },
  fc.constant('https://none.example'),
)
const how = one<How>(['flow', 'flow and feed', 'row', 'row and look'])
const who = mostly<Who>('own', 'other', 'admin', 'stranger')

const start = fc.record({
  do: fc.constant('start' as const),
  user,
  template: root,
  version: fc.oneof({ weight: 20, arbitrary: fc.constant(null) }, one([1, 2])),
  by: one(['exchange', 'user', 'user'] as const),
  mode,
  modeFor: fc.oneof({ weight: 6, arbitrary: fc.constant(null) }, seconds),
  claim: mostly(true, false),
})

const weighted: readonly (readonly [number, fc.Arbitrary<Command>])[] = [
  [6, start],
  [
    1,
    fc.record({
      do: fc.constant('claim' as const),
      at: pick,
      as: mostly<'own' | 'agent' | 'user'>('own', 'agent', 'user'),
    }),
  ],
  [
    30,
    fc.record({
      do: fc.constant('ask' as const),
      at: pick,
      stale,
      items: fc.array(wish, { minLength: 1, maxLength: 3 }),
    }),
  ],
  [
    1,
    fc.record({
      do: fc.constant('ask' as const),
      at: live,
      stale,
      items: fc.array(wish, { minLength: 4, maxLength: 4 }),
    }),
  ],
  [
    20,
    fc.record({
      do: fc.constant('answer' as const),
      request: pick,
      answers: fc.array(answer, { minLength: 3, maxLength: 3 }),
      wrong: fc.oneof({ weight: 16, arbitrary: fc.constant(null) }, one(WRONG_ANSWERS)),
      ruleFor: some,
    }),
  ],
  [
    5,
    fc.record({
      do: fc.constant('release' as const),
      at: pick,
      stale,
      what: live,
      how: one(['grant', 'item', 'permission'] as const),
    }),
  ],
  [2, fc.record({ do: fc.constant('take back' as const), at: live, what: live, as: who })],
  [2, fc.record({ do: fc.constant('my access' as const), at: pick, stale })],
  [2, fc.record({ do: fc.constant('introspect' as const), at: pick })],
  [
    10,
    fc.record({
      do: fc.constant('child' as const),
      at: pick,
      stale,
      template: fc.oneof(
        { weight: 4, arbitrary: fc.constant('m-child') },
        { weight: 2, arbitrary: fc.constant('m-leaf') },
        one(TEMPLATE_NAMES),
      ),
      readOnly: fc.boolean(),
      claim: mostly(true, false),
    }),
  ],
  [
    3,
    fc.record({
      do: fc.constant('end' as const),
      at: pick,
      stale,
      as: one(['agent', 'agent', 'client', 'own', 'admin', 'other', 'stranger'] as const),
    }),
  ],
  [6, fc.record({ do: fc.constant('reissue' as const), at: pick, audience })],
  [3, fc.record({ do: fc.constant('exchange' as const), at: pick, stale, audience })],
  [
    8,
    fc.record({
      do: fc.constant('access' as const),
      user,
      item: fc.nat(ACCESS.length - 1),
      how,
    }),
  ],
  [
    1,
    fc.record({
      do: fc.constant('user status' as const),
      user,
      on: fc.boolean(),
      how,
    }),
  ],
  [
    1,
    fc.record({
      do: fc.constant('agent status' as const),
      on: mostly(true, false),
      look: fc.boolean(),
    }),
  ],
  [
    7,
    fc.record({
      do: fc.constant('rule' as const),
      user,
      template: fc.oneof(
        { weight: 3, arbitrary: fc.constant('m-root') },
        { weight: 1, arbitrary: one(ENABLED) },
      ),
      effect: one<Effect>(['allow', 'allow', 'deny', 'ask']),
      item: wish,
      for: some,
    }),
  ],
  [
    2,
    fc.record({
      do: fc.constant('forget rule' as const),
      rule: live,
      as: mostly<'own' | 'other' | 'tenant'>('own', 'other', 'tenant'),
    }),
  ],
  [
    3,
    fc.record({
      do: fc.constant('suspend' as const),
      template: fc.oneof(fc.constant('m-root'), one(ENABLED)),
    }),
  ],
  [
    5,
    fc.record({
      do: fc.constant('narrow' as const),
      template: fc.oneof({ weight: 2, arbitrary: fc.constant('m-root') }, one(ENABLED)),
      on: mostly(true, false),
      adopted: one([1, 2]),
      dropped: fc.array(fc.nat(KEEPABLE.length - 1), { maxLength: 3 }),
      modes: one<readonly Mode[]>([
        ['ask', 'auto', 'bypass'],
        ['ask', 'auto'],
        ['ask'],
        ['ask', 'bypass'],
      ]),
      limits: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(TIGHT_LIMITS.length - 1)),
      look: fc.boolean(),
    }),
  ],
  [
    4,
    fc.record({
      do: fc.constant('catalog' as const),
      permission: one(PERMISSIONS),
      set: one(['sensitive', 'plain', 'never', 'delegable', 'retired', 'back'] as const),
      look: fc.boolean(),
    }),
  ],
  [
    4,
    fc.record({
      do: fc.constant('freeze' as const),
      scope: one(['tenant', 'template', 'agent', 'user'] as const),
      which: fc.nat(3),
      on: fc.boolean(),
    }),
  ],
  [
    3,
    fc.record({
      do: fc.constant('tighten' as const),
      at: pick,
      mode,
      for: some,
      as: mostly<'own' | 'other'>('own', 'other'),
    }),
  ],
  [5, fc.record({ do: fc.constant('tick' as const), seconds, sweep: fc.boolean() })],
  [2, fc.constant({ do: 'look again' as const })],
  [2, fc.record({ do: fc.constant('other tenant' as const), at: pick, what: one(OTHER_TENANT) })],
]

const settled = (command: Command, favourites: readonly number[]): Command => {
  const settle = (n: number) =>
    n < FAVOURITE ? n : (favourites[(n - FAVOURITE) % favourites.length] ?? 0)
  if (command.do === 'ask') return { ...command, items: command.items.map(settle) }
  return command.do === 'rule' ? { ...command, item: settle(command.item) } : command
}

/** Wishes of which the second covers the first. */
const PAIRS = [
  [BOARD_A, BOARDS],
  [ROWS_NEAR, ROWS],
  [MAIL_A, MAIL],
  [PAY_NEAR, PAY],
].map((pair) => pair.map((item) => WISHES.findIndex((w) => w.item === item)) as [number, number])

// What seldom meets by chance: the same item in two commands, an answer right after its question.
const early = fc.nat(2)
const asks = (items: readonly number[], at = 0): Command => ({ do: 'ask', at, stale: false, items })
const answers = (...given: readonly Answer[]): Command => ({
  do: 'answer',
  request: 0,
  answers: given,
  wrong: null,
  ruleFor: null,
})
const anything = fc.oneof(...weighted.map(([weight, arbitrary]) => ({ weight, arbitrary })))
const wishes = fc.array(wish, { minLength: 1, maxLength: 3, size: 'max' })
const chains: readonly (readonly [number, fc.Arbitrary<readonly Command[]>])[] = [
  [24, anything.map((command) => [command])],
  [4, fc.tuple(early, wishes, answer).map(([at, items, how]) => [asks(items, at), answers(how)])],
  [
    4,
    fc
      .tuple(early, wishes, one(['m-child', 'm-child', 'm-leaf']), mostly(false, true))
      .map(([at, items, template, readOnly]) => [
        asks(items, at),
        answers('allow_once'),
        { do: 'child', at, stale: false, template, readOnly, claim: true },
      ]),
  ],
  [
    2,
    fc
      .tuple(wish, one<Effect>(['allow', 'deny', 'ask']), fc.boolean(), wish)
      .map(([item, effect, suspend, other]) => [
        { do: 'rule', user: 0, template: 'm-root', effect, item, for: null },
        ...(suspend ? [{ do: 'suspend' as const, template: 'm-root' }] : []),
        asks([item, other]),
      ]),
  ],
  [
    2,
    fc
      .tuple(wish, one<Effect>(['allow', 'deny', 'ask']), seconds, seconds)
      .map(([item, effect, lasts, later]) => [
        { do: 'rule', user: 0, template: 'm-root', effect, item, for: lasts },
        { do: 'tick', seconds: later, sweep: false },
        asks([item]),
      ]),
  ],
  [
    3,
    fc
      .tuple(seconds, fc.boolean(), early, audience, anything)
      .map(([later, sweep, at, to, then]) => [
        { do: 'tick', seconds: later, sweep },
        { do: 'reissue', at, audience: to },
        then,
      ]),
  ],
  [
    2,
    fc
      .tuple(
        one(['tenant', 'template', 'template', 'agent', 'user'] as const),
        fc.nat(3),
        early,
        anything,
      )
      .map(([scope, which, at, then]) => [
        { do: 'freeze', scope, which, on: true },
        {
          do: 'child',
          at,
          stale: false,
          template: which === 2 ? 'm-leaf' : 'm-child',
          readOnly: false,
          claim: true,
        },
        then,
        { do: 'freeze', scope, which, on: false },
      ]),
  ],
  [
    1,
    fc
      .tuple(wish, anything, some)
      .map(([item, between, ruleFor]) => [
        { do: 'rule', user: 0, template: 'm-root', effect: 'allow', item, for: null },
        { do: 'suspend', template: 'm-root' },
        asks([item]),
        between,
        { ...answers('allow_always'), ruleFor } as Command,
      ]),
  ],
  [
    2,
    fc
      .tuple(wish, wish, fc.nat(ACCESS_AT_FIRST - 1), answer)
      .map(([a, b, item, how]) => [
        asks([a]),
        answers('allow_once'),
        asks([b]),
        { do: 'access', user: 0, item, how: 'row' },
        answers(how),
      ]),
  ],
  [
    2,
    fc
      .tuple(wishes, one(WRONG_ANSWERS), answer)
      .map(([items, wrong, how]) => [
        asks(items),
        { do: 'answer', request: 0, answers: [how], wrong, ruleFor: null },
      ]),
  ],
  [
    1,
    one(PAIRS).map(([small, wide]) => [
      asks([small]),
      answers('allow_once'),
      asks([wide]),
      answers('deny'),
      asks([wide, small]),
    ]),
  ],
  [
    1,
    fc
      .tuple(wish, wish, answer)
      .map(([a, b, how]) => [asks([a]), answers('deny'), asks([b, a]), answers(how)]),
  ],
  [
    3,
    fc
      .tuple(fc.nat(ACCESS.length - 1), how, early, fc.boolean())
      .map(([item, how, at, ask]) => [
        { do: 'access', user: 0, item, how },
        ask ? asks([FAVOURITE], at) : { do: 'reissue', at, audience: null },
      ]),
  ],
]

/** A session to begin with, mostly one that can do a lot, and then anything. */
export const sequences: fc.Arbitrary<readonly Command[]> = fc
  .tuple(
    start,
    fc.array(fc.oneof(...chains.map(([weight, arbitrary]) => ({ weight, arbitrary }))), {
      minLength: 1,
      maxLength: 12,
      size: 'max',
    }),
    fc.array(fc.nat(SOUND_WISHES - 1), { minLength: 2, maxLength: 4, size: 'max' }),
  )
  .map(([first, rest, favourites]) => [first, ...rest.flat()].map((c) => settled(c, favourites)))
