import type { ActivityRecord, Lane, Timeline } from '../api/staff.ts'

/** Where everything of a timeline stands in its picture. Pixels of the picture's own box; times in milliseconds. */
export const WIDTH = 1000
export const GUTTER = 236
export const RIGHT = 18
const HEAD = 30
const ROW = 26
const GAP = 12
const MARK = 12

export type Range = { readonly from: number; readonly to: number }
export type Row =
  | { readonly kind: 'head'; readonly y: number; readonly lane: Lane; readonly child: boolean }
  | { readonly kind: 'marks'; readonly y: number; readonly lane: Lane }
  | { readonly kind: 'grant'; readonly y: number; readonly grant: Lane['grants'][number] }
  | { readonly kind: 'calls'; readonly y: number; readonly lane: Lane }

const SECOND = 1000

export function wholeOf({ session, lanes }: Timeline, now: number): Range {
  const from = Date.parse(session.created_at)
  const ends = lanes.flatMap(({ session: one, records }) => [
    one.ended_at === undefined ? now : Date.parse(one.ended_at),
    ...records.slice(-1).map((record) => Date.parse(record.at)),
  ])
  return { from, to: Math.max(from + SECOND, ...ends) }
}

export function rowsOf({ lanes }: Timeline): { rows: readonly Row[]; height: number } {
  const rows: Row[] = []
  let y = ROW
  for (const lane of lanes) {
    rows.push({ kind: 'head', y, lane, child: lane.session.parent_id !== undefined })
    y += HEAD
    rows.push({ kind: 'marks', y, lane })
    y += ROW
    for (const grant of lane.grants) {
      rows.push({ kind: 'grant', y, grant })
      y += ROW
    }
    if (lane.calls.length > 0) {
      rows.push({ kind: 'calls', y, lane })
      y += ROW
    }
    y += GAP
  }
  return { rows, height: y }
}

export const xIn =
  ({ from, to }: Range) =>
  (at: number): number =>
    GUTTER + ((at - from) / (to - from)) * (WIDTH - GUTTER - RIGHT)

export type Mark = {
  readonly key: string
  readonly x: number
  readonly kind: 'asked' | 'granted' | 'refused' | 'waits' | 'ended'
  readonly record: ActivityRecord
}

function kindOf({ type, data }: ActivityRecord): Mark['kind'] | null {
  if (type === 'access.requested') return 'asked'
  if (type === 'session.ended') return 'ended'
  if (type !== 'access.decided') return null
  if (data.outcome === 'granted') return 'granted'
  return data.outcome === 'refused' ? 'refused' : 'waits'
}

/** In the order in which it happened; what happened at once stands side by side. */
export function marksOf(lane: Lane, range: Range): readonly Mark[] {
  const x = xIn(range)
  const marks: Mark[] = []
  for (const record of lane.records) {
    const kind = kindOf(record)
    const at = Date.parse(record.at)
    if (kind === null || at < range.from || at > range.to) continue
    const free = Math.max(x(at), (marks.at(-1)?.x ?? 0) + MARK)
    marks.push({ key: record.id, kind, record, x: free })
  }
  // Those that were pushed over the edge push the others back.
  let edge = WIDTH - 6
  return marks
    .toReversed()
    .map((mark) => {
      const held = Math.min(mark.x, edge)
      edge = held - MARK
      return { ...mark, x: held }
    })
    .toReversed()
}

export type Stretch = { readonly at: number; readonly allowed: number; readonly denied: number }

/** Calls of all permissions together, stretch by stretch. */
export function stretchesOf(lane: Lane, range: Range, seconds: number): readonly Stretch[] {
  const sums = new Map<number, Stretch>()
  for (const { at, allowed, denied } of lane.calls) {
    const time = Date.parse(at)
    if (time + seconds * SECOND < range.from || time > range.to) continue
    const old = sums.get(time) ?? { at: time, allowed: 0, denied: 0 }
    sums.set(time, { at: time, allowed: old.allowed + allowed, denied: old.denied + denied })
  }
  return [...sums.values()].toSorted((a, b) => a.at - b.at)
}

const TICKS = 5
export const ticksOf = ({ from, to }: Range): readonly number[] =>
  Array.from({ length: TICKS }, (_, i) => from + ((to - from) * i) / (TICKS - 1))

const DAY = 86_400_000
export function tickWords(at: number, { from, to }: Range): string {
  const seconds = to - from < 600_000 ? ({ second: '2-digit' } as const) : {}
  const days = to - from > DAY ? ({ month: 'short', day: 'numeric' } as const) : {}
  const how = { hour: '2-digit', minute: '2-digit', ...seconds, ...days } as const
  return new Intl.DateTimeFormat(undefined, how).format(at)
}

/** Over when it was meant to be, or lost before. */
export const endOf = (grant: Lane['grants'][number]): 'held' | 'over' | 'lost' => {
  if (grant.to === undefined) return 'held'
  return grant.ended === 'session_over' || grant.ended === 'released' ? 'over' : 'lost'
}

const ZOOM = 2
/** A part of the whole, never outside it. */
export function zoomed(whole: Range, range: Range, how: 'in' | 'out' | 'earlier' | 'later'): Range {
  const size = range.to - range.from
  const full = whole.to - whole.from
  const next = how === 'in' ? size / ZOOM : how === 'out' ? Math.min(full, size * ZOOM) : size
  const step = how === 'earlier' ? -size / ZOOM : how === 'later' ? size / ZOOM : 0
  const middle = (range.from + range.to) / 2 + step
  const from = Math.min(Math.max(whole.from, middle - next / 2), whole.to - next)
  return { from, to: from + next }
}
