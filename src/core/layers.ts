import { assert } from './assert.ts'
import { decide, type Facts, type Verdict } from './decide.ts'
import { type DecisionReason, type End, REASONS, type Reason } from './reason.ts'

/**
 * Each layer's own answer, for those who ask why. Not a second decision: `decide` is asked again and again, each time with
 * the layers that have spoken taken out of its way, so what a layer says is what the decision says of it.
 */
type LayerRow = {
  readonly layer: string
  readonly reasons: readonly Reason[]
  /** The facts as if this layer had let the item through. */
  readonly open: (f: Facts) => Facts
  /** What it says when it does. */
  readonly passes: string
}

const without = (f: Facts, effect: keyof Facts['rules']): Facts => ({
  ...f,
  rules: Object.fromEntries(Object.entries(f.rules).filter(([name]) => name !== effect)),
})

/** Of an unknown permission nothing more is known: the riskiest is assumed, so that nothing below looks open. */
const KNOWN = { delegable: true, risk: 'high' } as const

export const LAYERS = [
  {
    layer: 'catalog',
    reasons: ['unknown_permission'],
    open: (f) => ({ ...f, permission: f.permission ?? KNOWN }),
    passes: 'The catalog knows it.',
  },
  {
    layer: 'ceiling',
    reasons: ['outside_ceiling'],
    open: (f) => ({ ...f, inCeiling: true }),
    passes: 'The template, as it is turned on, may ask for it.',
  },
  {
    layer: 'never_delegable',
    reasons: ['never_delegable'],
    open: (f) => ({ ...f, permission: { ...(f.permission ?? KNOWN), delegable: true } }),
    passes: 'It can be lent to an agent.',
  },
  {
    layer: 'user_access',
    reasons: ['user_lacks_access'],
    open: (f) => ({ ...f, userHasItNow: true }),
    passes: 'The person has this access themselves now.',
  },
  {
    layer: 'deny_rule',
    reasons: ['deny_rule'],
    open: (f) => without(f, 'deny'),
    passes: 'No rule of the person refuses it.',
  },
  {
    layer: 'held',
    reasons: ['already_held'],
    open: (f) => ({ ...f, alreadyHeld: false }),
    passes: 'The session does not hold it yet.',
  },
  {
    layer: 'denied',
    reasons: ['denied_this_session'],
    open: (f) => ({ ...f, deniedThisSession: false }),
    passes: 'The person has not said no to it in this session.',
  },
  {
    layer: 'sensitive',
    reasons: ['sensitive'],
    open: (f) => ({ ...f, sensitive: false }),
    passes: 'Neither the catalog nor the template marks it as sensitive.',
  },
  {
    layer: 'ask_rule',
    reasons: ['ask_rule'],
    open: (f) => without(f, 'ask'),
    passes: 'No rule of the person wants to be asked.',
  },
  {
    layer: 'reconsent',
    reasons: ['reconsent'],
    open: (f) => (f.rules.allow?.suspended ? without(f, 'allow') : f),
    passes: 'No rule of the person waits for a look at a wider version.',
  },
  {
    layer: 'allow_rule',
    reasons: ['allow_rule'],
    open: (f) => without(f, 'allow'),
    passes: 'No rule of the person in force allows it.',
  },
  {
    layer: 'mode',
    reasons: ['mode_auto', 'mode_bypass', 'mode_ask'],
    open: (f) => f,
    passes: 'The mode always has an answer.',
  },
] as const satisfies readonly LayerRow[]

export type Layer = (typeof LAYERS)[number]['layer']

/** What ended a prompt, where no layer of the decision spoke. */
const ENDED_BY = {
  allowed_by_user: 'answer',
  denied_by_user: 'answer',
  expired: 'time',
  cancelled: 'session_end',
} as const satisfies Record<End, string>

export type LayerOrEnd = Layer | (typeof ENDED_BY)[End]

/** Which layer a recorded reason is of, or what ended its prompt. */
export function layerOf(reason: DecisionReason): LayerOrEnd {
  const row = LAYERS.find((one: LayerRow) => one.reasons.some((of) => of === reason))
  return row?.layer ?? ENDED_BY[reason as End]
}

export type LayerAnswer = {
  readonly layer: Layer
  /** Null: it lets the item through to the next. */
  readonly verdict: Verdict | null
  /** Whether it is the one whose word counted: the first with a verdict. */
  readonly decides: boolean
  readonly says: string
}

export type Explanation = { readonly verdict: Verdict; readonly layers: readonly LayerAnswer[] }

/** The decision, and what every layer would have said. Pure. */
export function explainLayers(facts: Facts): Explanation {
  const verdict = decide(facts)
  let left = facts
  let decided = false
  const layers = LAYERS.map((row: LayerRow): LayerAnswer => {
    const said = decide(left)
    left = row.open(left)
    const speaks = row.reasons.includes(said.reason)
    const decides = speaks && !decided
    decided ||= speaks
    assert(!decides || said.reason === verdict.reason, 'the first layer that speaks decides')
    return {
      layer: row.layer as Layer,
      verdict: speaks ? said : null,
      decides,
      says: speaks ? REASONS[said.reason].tells : row.passes,
    }
  })
  assert(decided, 'the mode always has an answer')
  return { verdict, layers }
}
