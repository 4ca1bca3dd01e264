import { LIMITS } from '../../../src/core/limits.ts'
import { MODES } from '../../../src/core/vocabulary.ts'
import type { Draft, Version } from '../api/studio.ts'
import type { Mode } from '../api/types.ts'

/** A draft as it is written: everything is text until it is sent, so that nothing that was typed can be lost. */
export type Row = {
  /** Names the row on this page only. */
  readonly key: string
  readonly permission: string
  readonly resource: string
  /** A filter as JSON, or nothing. */
  readonly narrow: string
  /** Why the job needs it; of what is in the ceiling. */
  readonly justification: string
}
export type Child = { readonly template: string; readonly version: number }
export type Form = {
  readonly purpose: string
  readonly ceiling: readonly Row[]
  readonly context: string
  readonly modes: readonly Mode[]
  readonly limits: { readonly [name: string]: string }
  readonly children: readonly Child[]
  readonly sensitive: readonly Row[]
  readonly sponsor: string
}
export type Field = keyof Form
export const FIELDS = [
  'purpose',
  'ceiling',
  'sensitive',
  'context',
  'modes',
  'limits',
  'children',
  'sponsor',
] as const satisfies readonly Field[]

export const LIMIT_NAMES = [...Object.keys(LIMITS), 'requestWaitSeconds']
export const limitMax = (name: string): number | undefined =>
  Object.entries(LIMITS).find(([one]) => one === name)?.[1]

let rows = 0
export function newRow(of: Omit<Row, 'key'>): Row {
  rows += 1
  return { key: `row-${rows}`, ...of }
}

type Place = Version['ceiling'][number]
const rowOf = ({ permission, resource = '', narrow, justification = '' }: Place): Row =>
  newRow({
    ...{ permission, resource, justification },
    narrow: narrow === undefined ? '' : JSON.stringify(narrow),
  })

export const formOf = (v: Version): Form => ({
  purpose: v.purpose,
  ceiling: v.ceiling.map(rowOf),
  context: v.context,
  modes: MODES.filter((mode) => v.modes.includes(mode)),
  limits: Object.fromEntries(LIMIT_NAMES.map((name) => [name, String(v.limits[name] ?? '')])),
  children: v.children.map((one) => ({ template: one.template, version: one.version ?? 0 })),
  sensitive: v.sensitive.map(rowOf),
  sponsor: v.sponsor?.login ?? v.sponsor?.id ?? '',
})

type Narrow = Record<string, unknown>

/** What a row's filter says, or null when it is no JSON object. */
export function narrowOf(text: string): Narrow | undefined | null {
  if (text.trim() === '') return undefined
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? { ...value } : null
  } catch {
    return null
  }
}

export function itemOf(row: Row): Omit<Place, 'justification'> {
  const narrow = narrowOf(row.narrow)
  return {
    permission: row.permission,
    ...(row.resource.trim() === '' ? {} : { resource: row.resource.trim() }),
    ...(narrow === undefined || narrow === null ? {} : { narrow }),
  }
}

const justifiedOf = (row: Row): Place => {
  const justification = row.justification.trim()
  return { ...itemOf(row), ...(justification === '' ? {} : { justification }) }
}

export type Problem = { readonly pointer: string; readonly message: string }

/** What keeps the form from being sent at all: the server could not even read it. */
export function unreadable(form: Form, says: { json: string; number: string }): readonly Problem[] {
  const filters = (['ceiling', 'sensitive'] as const).flatMap((list) =>
    form[list].flatMap((row, i) =>
      narrowOf(row.narrow) === null
        ? [{ pointer: `/${list}/${i}/narrow`, message: says.json }]
        : [],
    ),
  )
  const limits = Object.entries(form.limits).flatMap(([name, text]) =>
    text.trim() === '' || /^\d{1,7}$/.test(text.trim())
      ? []
      : [{ pointer: `/limits/${name}`, message: says.number }],
  )
  return [...filters, ...limits]
}

/** What is sent. Only of a form that is readable. */
export const draftOf = (form: Form): Omit<Draft, 'revision' | 'base'> => ({
  purpose: form.purpose,
  ceiling: form.ceiling.map(justifiedOf),
  context: form.context,
  modes: [...form.modes],
  limits: Object.fromEntries(
    Object.entries(form.limits).flatMap(([name, text]) =>
      text.trim() === '' ? [] : [[name, Number(text)]],
    ),
  ),
  children: form.children.map((one) => ({ ...one })),
  sensitive: form.sensitive.map(itemOf),
  ...(form.sponsor.trim() === '' ? {} : { sponsor: form.sponsor.trim() }),
})

/** Which item it is: what is said of it is not in that. */
export const rowText = ({ permission, resource, narrow }: Row): string =>
  JSON.stringify([permission, resource.trim(), narrow.trim()])
export const childText = (one: Child): string => `${one.template}@${one.version}`

/** A field without what only this page knows, for asking whether two are the same. */
export function fieldText(form: Form, field: Field): string {
  const value = form[field]
  if (field === 'sensitive') return JSON.stringify(form.sensitive.map(rowText))
  if (field === 'ceiling')
    return JSON.stringify(form.ceiling.map((row) => [rowText(row), row.justification.trim()]))
  return JSON.stringify(value)
}
export const sameForm = (a: Form, b: Form): boolean =>
  FIELDS.every((field) => fieldText(a, field) === fieldText(b, field))

/** Two builders: what each has changed since the revision both began from. */
export type Clash = { readonly field: Field; readonly by: 'me' | 'them' | 'both' }
export const clashes = (base: Form, mine: Form, theirs: Form): readonly Clash[] =>
  FIELDS.flatMap((field): readonly Clash[] => {
    const [was, me, them] = [base, mine, theirs].map((form) => fieldText(form, field))
    if (me === them) return []
    return [{ field, by: me === was ? 'them' : them === was ? 'me' : 'both' }]
  })

type Three<One> = {
  readonly base: readonly One[]
  readonly mine: readonly One[]
  readonly theirs: readonly One[]
}

/** Both lists in one: what either has added is in, and what either has taken away is out. */
function together<One>({ base, mine, theirs }: Three<One>, text: (one: One) => string): One[] {
  const [was, me, them] = [base, mine, theirs].map((list) => new Set(list.map(text)))
  const kept = mine.filter((one) => them?.has(text(one)) || !was?.has(text(one)))
  const fresh = theirs.filter((one) => !was?.has(text(one)) && !me?.has(text(one)))
  return [...kept, ...fresh]
}

/** Whoever changed the words of a row that both have: theirs, or mine, or both one after the other. */
function wordsTogether(rows: readonly Row[], base: readonly Row[], theirs: readonly Row[]): Row[] {
  const of = (list: readonly Row[], row: Row) =>
    list.find((one) => rowText(one) === rowText(row))?.justification
  return rows.map((row) => {
    const [was, them] = [of(base, row), of(theirs, row)]
    if (them === undefined || them === was || them === row.justification) return row
    const both = row.justification === was ? them : `${row.justification}\n${them}`
    return { ...row, justification: both.trim() }
  })
}

export type Choice = 'mine' | 'theirs' | 'together'
export const canJoin = (field: Field): boolean =>
  field === 'ceiling' || field === 'sensitive' || field === 'children'

export function resolved(
  forms: { readonly base: Form; readonly mine: Form; readonly theirs: Form },
  choices: { readonly [F in Field]?: Choice },
): Form {
  const { base, mine, theirs } = forms
  const pick = <F extends Field>(field: F): Form[F] =>
    choices[field] === 'theirs' ? theirs[field] : mine[field]
  const rowsOf = (field: 'ceiling' | 'sensitive'): readonly Row[] =>
    choices[field] === 'together'
      ? wordsTogether(
          together({ base: base[field], mine: mine[field], theirs: theirs[field] }, rowText),
          base[field],
          theirs[field],
        )
      : pick(field)
  return {
    purpose: pick('purpose'),
    ceiling: rowsOf('ceiling'),
    context: pick('context'),
    modes: pick('modes'),
    limits: pick('limits'),
    children:
      choices.children === 'together'
        ? together({ base: base.children, mine: mine.children, theirs: theirs.children }, childText)
        : pick('children'),
    sensitive: rowsOf('sensitive'),
    sponsor: pick('sponsor'),
  }
}

/** `draft.ceiling.0.resource`, as a refused body names it, as the pointer that a check gives. */
export const pointerOfPath = (path: string): string =>
  `/${path
    .replace(/^draft\./, '')
    .split('.')
    .join('/')}`
