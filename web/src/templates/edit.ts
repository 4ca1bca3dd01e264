import type { Enablement, EnablementPut } from '../api/staff.ts'

/** What an org admin has in hand: of what the version allows, what is kept. */
export type Item = Enablement['allows']['ceiling'][number]
export type Mode = Enablement['allows']['modes'][number]

export type Draft = {
  readonly kept: ReadonlySet<string>
  readonly modes: ReadonlySet<Mode>
  readonly limits: Readonly<Record<string, number>>
}

/** The same item has the same key, however its members are ordered. */
export const keyOf = ({ permission, resource, narrow }: Item): string =>
  JSON.stringify([permission, resource ?? null, narrow ?? null])

/** All that can be kept: the version's items, and what was kept narrower than they are. */
export function itemsOf({ allows, kept = [] }: Enablement): readonly Item[] {
  const known = new Set(allows.ceiling.map(keyOf))
  return [...allows.ceiling, ...kept.filter((item) => !known.has(keyOf(item)))]
}

export const isNarrower = ({ allows }: Enablement, item: Item): boolean =>
  !allows.ceiling.some((one) => keyOf(one) === keyOf(item))

export function draftOf({ allows, kept, modes, limits }: Enablement): Draft {
  return {
    kept: new Set((kept ?? allows.ceiling).map(keyOf)),
    modes: new Set(modes ?? allows.modes),
    limits: { ...allows.limits, ...limits },
  }
}

/** What is sent: all of it, so that what was seen is what holds. The version only where none was ever adopted. */
export const putOf = (of: Enablement, draft: Draft): EnablementPut => ({
  status: 'on',
  ...(of.adopted_version === undefined ? { version: of.allows.version } : {}),
  kept: itemsOf(of).filter((item) => draft.kept.has(keyOf(item))),
  modes: of.allows.modes.filter((mode) => draft.modes.has(mode)),
  limits: draft.limits,
})

export const toggled = <Value>(set: ReadonlySet<Value>, value: Value): ReadonlySet<Value> => {
  const next = new Set(set)
  if (!next.delete(value)) next.add(value)
  return next
}
