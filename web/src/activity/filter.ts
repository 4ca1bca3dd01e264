import type { Query } from '../api/staff.ts'

/** The filters as they stand in the address, and what they ask the server for. */
export const PERIODS = ['today', '7d', '30d', 'custom'] as const
export type Period = (typeof PERIODS)[number]
export const VIEWS = ['sessions', 'records'] as const
export type View = (typeof VIEWS)[number]

const DAYS = { today: 0, '7d': 7, '30d': 30 } as const
const DATE = /^\d{4}-\d{2}-\d{2}$/

export const FILTERS = ['user', 'agent', 'template', 'permission', 'type', 'period', 'from', 'to']

/** The start of a day here, so many days from another. */
function dayFrom(date: Date, days: number): Date {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + days)
}

/** `2026-11-30`, as a date field has it. */
export function dateField(date: Date): string {
  const two = (n: number) => String(n).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

export const periodOf = (search: URLSearchParams): Period =>
  PERIODS.find((one) => one === search.get('period')) ?? '7d'

export const viewOf = (search: URLSearchParams): View =>
  search.get('view') === 'records' ? 'records' : 'sessions'

function day(text: string | null, days: number): string | undefined {
  if (text === null || !DATE.test(text)) return undefined
  const date = new Date(`${text}T00:00:00`)
  return Number.isNaN(date.getTime()) ? undefined : dayFrom(date, days).toISOString()
}

function rangeOf(search: URLSearchParams): Query {
  const period = periodOf(search)
  if (period === 'custom') return { from: day(search.get('from'), 0), to: day(search.get('to'), 1) }
  return { from: dayFrom(new Date(), -DAYS[period]).toISOString() }
}

/** `records`: with the type of record, which sessions do not have. */
export function queryOf(search: URLSearchParams, view: View): Query {
  const one = (name: string) => search.get(name) ?? undefined
  return {
    user: one('user'),
    agent: one('agent'),
    template: one('template'),
    permission: one('permission'),
    ...(view === 'records' ? { type: one('type') } : {}),
    ...rangeOf(search),
  }
}
