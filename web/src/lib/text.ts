/** What others wrote, made harmless to look at; and times, amounts and filters in words. */

// Control, format (bidi, zero width, tags), private, unassigned and half surrogates; and what looks like nothing at all.
const UNSEEN = /\p{C}|\u115F|\u1160|\u3164|\uFFA0|\u2800|\u034F|\u17B4|\u17B5/gu
const BREAK = /[\r\n\u2028\u2029\u0085\t\v\f]+/g

/** One paragraph of seen characters: a reason or task can neither end the quote nor turn the line around. */
export const plain = (text: string): string =>
  text.replace(BREAK, ' ').replace(UNSEEN, '').replace(/ {2,}/g, ' ').trim()

/** The same, with its lines: for what agents say in the conversation. */
export const plainLines = (text: string): string =>
  text
    .split(/\r\n|[\n\r\u2028\u2029\u0085]/)
    .map((line) => line.replace(/\t/g, '  ').replace(UNSEEN, ''))
    .join('\n')

export function shortened(text: string, max: number): string {
  const all = [...text]
  return all.length <= max ? text : `${all.slice(0, max).join('').trimEnd()}…`
}

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** "40 s", "12 min", "7 h 30 min", "3 days". */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds))
  if (s < MINUTE) return `${s} s`
  if (s < HOUR) return `${Math.floor(s / MINUTE)} min`
  if (s < DAY) {
    const minutes = Math.floor((s % HOUR) / MINUTE)
    return `${Math.floor(s / HOUR)} h${minutes === 0 ? '' : ` ${minutes} min`}`
  }
  const days = Math.floor(s / DAY)
  return days === 1 ? '1 day' : `${days} days`
}

export const secondsUntil = (iso: string, now: number): number => (Date.parse(iso) - now) / 1000
export const secondsSince = (iso: string, now: number): number => (now - Date.parse(iso)) / 1000

export function ago(iso: string, now: number): string {
  const seconds = secondsSince(iso, now)
  return seconds < 10 ? 'just now' : `${duration(seconds)} ago`
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })

export const clock = (iso: string): string => CLOCK.format(new Date(iso))
export const fullTime = (iso: string): string => FULL.format(new Date(iso))
export const date = (iso: string): string => DATE.format(new Date(iso))

/** 14:02 today, else with its date. */
export const clockOrDate = (iso: string, now: number): string =>
  new Date(iso).toDateString() === new Date(now).toDateString()
    ? clock(iso)
    : `${date(iso)}, ${clock(iso)}`

const OPERATORS: Readonly<Record<string, string>> = {
  $eq: 'is',
  $ne: 'is not',
  $lt: 'is below',
  $lte: 'is at most',
  $gt: 'is above',
  $gte: 'is at least',
  $in: 'is one of',
}

const fieldName = (field: string): string => plain(field).replaceAll('_', ' ')

function valueWords(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueWords).join(', ')
  if (typeof value === 'string') return `“${plain(value)}”`
  if (typeof value === 'object' && value !== null && '$user' in value)
    return `your own ${fieldName(String(value.$user))}`
  return JSON.stringify(value)
}

const isClause = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function fieldWords(field: string, test: unknown): string {
  const name = fieldName(field)
  if (!isClause(test) || '$user' in test) return `${name} is ${valueWords(test)}`
  const parts = Object.entries(test).map(([operator, value]) =>
    operator === '$not' && isClause(value)
      ? `not (${fieldWords(field, value)})`
      : `${name} ${OPERATORS[operator] ?? operator} ${valueWords(value)}`,
  )
  return parts.join(' and ')
}

function joined(clauses: unknown, word: string): string {
  const parts = Array.isArray(clauses) ? clauses.map((clause) => narrowWords(clause)) : []
  return parts.length > 1 ? parts.map((part) => `(${part})`).join(` ${word} `) : parts.join('')
}

/** A filter as a sentence; the exact filter stands beside it in the details. */
export function narrowWords(filter: unknown): string {
  if (!isClause(filter)) return JSON.stringify(filter)
  return Object.entries(filter)
    .map(([key, value]) => {
      if (key === '$and') return joined(value, 'and')
      if (key === '$or') return joined(value, 'or')
      if (key === '$not') return `not (${narrowWords(value)})`
      return fieldWords(key, value)
    })
    .join(' and ')
}

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n} ${n === 1 ? one : many}`
