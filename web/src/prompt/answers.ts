import type { Answer, RequestItemView, RequestView } from '../api/types.ts'

/** What a press of a card's button answers, item by item. Pure: nothing is sent here. */
export type Choices = ReadonlyMap<string, Answer>

export const pendingItems = (request: RequestView): readonly RequestItemView[] =>
  request.items.filter((item) => item.outcome === 'pending')

export const settledItems = (request: RequestView): readonly RequestItemView[] =>
  request.items.filter((item) => item.outcome !== 'pending')

export type Parts = {
  readonly ordinary: readonly RequestItemView[]
  readonly sensitive: readonly RequestItemView[]
  /** Sensitive items beside others: they sit apart, and each needs an answer of its own. */
  readonly apart: boolean
}

export function partsOf(request: RequestView): Parts {
  const pending = pendingItems(request)
  const sensitive = pending.filter((item) => item.sensitive)
  const ordinary = pending.filter((item) => !item.sensitive)
  return { ordinary, sensitive, apart: sensitive.length > 0 && ordinary.length > 0 }
}

/** Always is kept only where the server says that it can be; else it is this once. */
const kept = (item: RequestItemView, answer: Answer): Answer =>
  answer === 'allow_always' && (!item.can_remember || item.sensitive) ? 'allow_once' : answer

/**
 * The answers of one press. Null: a sensitive item that sits apart has no answer yet, and an allowing press must not
 * answer it along with the others. Deny may: saying no to all of it needs no more steps than saying yes.
 */
export function answersOf({ ordinary, sensitive, apart }: Parts, press: Answer, choices: Choices) {
  const denies = press === 'deny' || press === 'deny_always'
  const answers = new Map<string, Answer>(ordinary.map((item) => [item.id, kept(item, press)]))
  for (const item of sensitive) {
    const answer = apart ? (choices.get(item.id) ?? (denies ? press : undefined)) : press
    if (answer === undefined) return null
    answers.set(item.id, kept(item, answer))
  }
  return answers as Choices
}

/** Null until every item has been chosen for. */
export function chosenAnswers({ ordinary, sensitive }: Parts, choices: Choices): Choices | null {
  const all = [...ordinary, ...sensitive]
  const answers = all.flatMap((item) => {
    const answer = choices.get(item.id)
    return answer === undefined ? [] : [[item.id, kept(item, answer)] as const]
  })
  return answers.length === all.length ? new Map(answers) : null
}
