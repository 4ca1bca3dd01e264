import { ChevronLeft, ChevronRight, ZoomIn, ZoomOut } from 'lucide-react'
import { useId, useState } from 'react'
import type { Lane, Timeline } from '../api/staff.ts'
import { templateTitle, titleOf } from '../lib/sessions.ts'
import { fullTime, plain, shortened } from '../lib/text.ts'
import { IconButton } from '../ui/parts.tsx'
import { activityWords as says } from '../words/activity.ts'
import {
  endOf,
  GUTTER,
  type Mark,
  marksOf,
  type Range,
  RIGHT,
  type Row,
  rowsOf,
  stretchesOf,
  ticksOf,
  tickWords,
  WIDTH,
  wholeOf,
  xIn,
  zoomed,
} from './marks.ts'
import { aboutWords, byWords, endedWords, howWords, type Titles, titleIn } from './says.ts'

const LABEL_MAX = 32
const BAR = 12

function MarkShape({
  kind,
  x,
  y,
}: {
  readonly kind: Mark['kind']
  readonly x: number
  readonly y: number
}) {
  switch (kind) {
    case 'asked':
      return <path className="tl-asked" d={`M${x} ${y - 6}l6 6-6 6-6-6z`} />
    case 'granted':
      return <circle className="tl-granted" cx={x} cy={y} r={5} />
    case 'refused':
      return <path className="tl-refused" d={`M${x - 4} ${y - 4}l8 8m0-8l-8 8`} />
    case 'waits':
      return <circle className="tl-waits" cx={x} cy={y} r={4.5} />
    case 'ended':
      return <path className="tl-ended" d={`M${x} ${y - 9}v18M${x} ${y - 9}h7v6h-7`} />
  }
}

function Marks({
  row,
  range,
  titles,
}: {
  readonly row: Row & { kind: 'marks' }
  readonly range: Range
  readonly titles: Titles
}) {
  return marksOf(row.lane, range).map(({ key, kind, x, record }) => (
    <g key={key}>
      <title>
        {[fullTime(record.at), says.type[record.type], aboutWords(record, titles), howWords(record)]
          .filter(Boolean)
          .join(' · ')}
      </title>
      <MarkShape kind={kind} x={x} y={row.y + 13} />
    </g>
  ))
}

function EndShape({
  end,
  x,
  y,
}: {
  readonly end: ReturnType<typeof endOf>
  readonly x: number
  readonly y: number
}) {
  if (end === 'held') return <path className="tl-held" d={`M${x - 1} ${y - 7}l8 7-8 7z`} />
  if (end === 'over') return <path className="tl-over" d={`M${x} ${y - 8}v16`} />
  return <path className="tl-lost" d={`M${x - 5} ${y - 5}l10 10m0-10l-10 10`} />
}

function Grant({
  row: { y, grant },
  range,
  titles,
}: {
  readonly row: Row & { kind: 'grant' }
  readonly range: Range
  readonly titles: Titles
}) {
  const x = xIn(range)
  const [from, to] = [
    Date.parse(grant.from),
    grant.to === undefined ? range.to : Date.parse(grant.to),
  ]
  const title = titleIn(titles, grant.permission)
  const [left, right] = [Math.max(GUTTER, x(from)), Math.min(WIDTH - RIGHT, x(to))]
  const seen = from <= range.to && to >= range.from
  const how = [
    [title, grant.resource === undefined ? '' : plain(grant.resource)].filter(Boolean).join(', '),
    byWords(grant.by),
    `${fullTime(grant.from)} – ${grant.to === undefined ? says.legend.held : fullTime(grant.to)}`,
    grant.ended === undefined ? '' : endedWords(grant.ended),
  ]
  return (
    <g>
      <title>{how.filter(Boolean).join(' · ')}</title>
      <text className="tl-label" x={16} y={y + 17}>
        {shortened(title, LABEL_MAX)}
      </text>
      {seen && (
        <>
          <rect
            className={`tl-bar tl-by-${grant.by}`}
            x={left}
            y={y + 7}
            width={Math.max(3, right - left)}
            height={BAR}
            rx={3}
          />
          {to <= range.to && <EndShape end={endOf(grant)} x={right} y={y + 13} />}
        </>
      )}
    </g>
  )
}

const CALLS_GAP = 22

function Calls({
  row,
  range,
  seconds,
}: {
  readonly row: Row & { kind: 'calls' }
  readonly range: Range
  readonly seconds: number
}) {
  const x = xIn(range)
  let lastText = 0
  return (
    <g>
      <text className="tl-label tl-muted" x={16} y={row.y + 17}>
        {says.callsOf}
      </text>
      {stretchesOf(row.lane, range, seconds).map(({ at, allowed, denied }) => {
        const left = Math.max(GUTTER, x(at))
        const width = Math.max(5, Math.min(WIDTH - RIGHT, x(at + seconds * 1000)) - left)
        const room = left - lastText > CALLS_GAP
        if (room) lastText = left
        return (
          <g key={at}>
            <title>{`${fullTime(new Date(at).toISOString())} · ${says.callsIn(allowed, denied)}`}</title>
            <rect className="tl-calls" x={left} y={row.y + 19} width={width} height={4} rx={2} />
            {denied > 0 && <path className="tl-lost" d={`M${left} ${row.y + 17}l6 8m0-8l-6 8`} />}
            {room && (
              <text className="tl-count" x={left} y={row.y + 15}>
                {allowed + denied}
              </text>
            )}
          </g>
        )
      })}
    </g>
  )
}

function Head({ row }: { readonly row: Row & { kind: 'head' } }) {
  const title = templateTitle(row.lane.session)
  return (
    <g>
      <line className="tl-rule-line" x1={0} x2={WIDTH} y1={row.y + 2} y2={row.y + 2} />
      <text className="tl-head" x={8} y={row.y + 22}>
        {shortened(row.child ? says.lane(title) : title, 2 * LABEL_MAX)}
      </text>
    </g>
  )
}

function Axis({ range, height }: { readonly range: Range; readonly height: number }) {
  const x = xIn(range)
  return ticksOf(range).map((at, i, all) => (
    <g key={at}>
      <line className="tl-grid" x1={x(at)} x2={x(at)} y1={20} y2={height - 8} />
      <text
        className="tl-count"
        x={x(at)}
        y={14}
        textAnchor={i === 0 ? 'start' : i === all.length - 1 ? 'end' : 'middle'}
      >
        {tickWords(at, range)}
      </text>
    </g>
  ))
}

/** How a bar came to be is told by its hue and by its filling. */
function Fillings({ id }: { readonly id: string }) {
  return (
    <defs>
      <pattern
        id={`${id}-rule`}
        width={6}
        height={6}
        patternUnits="userSpaceOnUse"
        patternTransform="rotate(45)"
      >
        <rect className="tl-fill-rule" width={6} height={6} />
        <line className="tl-fill-line" x1={0} x2={0} y1={0} y2={6} />
      </pattern>
      <pattern id={`${id}-mode`} width={6} height={6} patternUnits="userSpaceOnUse">
        <rect className="tl-fill-mode" width={6} height={6} />
        <circle className="tl-fill-dot" cx={3} cy={3} r={1.3} />
      </pattern>
    </defs>
  )
}

const SOURCES = ['user', 'rule', 'mode', 'inherited'] as const
const MARKS = [
  ['asked', says.legend.asked],
  ['granted', says.legend.allowed],
  ['refused', says.legend.refused],
  ['waits', says.legend.waits],
] as const
const ENDS = ['over', 'lost', 'held'] as const

function Legend() {
  return (
    <ul className="tl-legend" aria-label={says.legend.label}>
      {MARKS.map(([kind, label]) => (
        <li key={kind}>
          <svg width={16} height={16} aria-hidden="true">
            <MarkShape kind={kind} x={8} y={8} />
          </svg>
          {label}
        </li>
      ))}
      {SOURCES.map((by) => (
        <li key={by}>
          <svg width={26} height={14} aria-hidden="true">
            <rect className={`tl-bar tl-by-${by}`} x={1} y={1} width={24} height={12} rx={3} />
          </svg>
          {says.legend[by]}
        </li>
      ))}
      {ENDS.map((end) => (
        <li key={end}>
          <svg width={16} height={16} aria-hidden="true">
            <EndShape end={end} x={7} y={8} />
          </svg>
          {says.legend[end]}
        </li>
      ))}
    </ul>
  )
}

function RowShape({
  row,
  range,
  titles,
  seconds,
}: {
  readonly row: Row
  readonly range: Range
  readonly titles: Titles
  readonly seconds: number
}) {
  switch (row.kind) {
    case 'head':
      return <Head row={row} />
    case 'marks':
      return <Marks row={row} range={range} titles={titles} />
    case 'grant':
      return <Grant row={row} range={range} titles={titles} />
    case 'calls':
      return <Calls row={row} range={range} seconds={seconds} />
  }
}

const ZOOMS = [
  ['in', ZoomIn],
  ['out', ZoomOut],
  ['earlier', ChevronLeft],
  ['later', ChevronRight],
] as const

const keyOf = (row: Row): string =>
  row.kind === 'grant' ? row.grant.grant_id : `${row.kind} ${(row.lane satisfies Lane).session.id}`

/** Lanes of a session and its subagents: what was asked and decided as marks, what was held as bars, calls as counts. */
export function Picture({
  timeline,
  titles,
}: {
  readonly timeline: Timeline
  readonly titles: Titles
}) {
  const [now] = useState(() => Date.now())
  const whole = wholeOf(timeline, now)
  const [zoom, setZoom] = useState<Range | null>(null)
  const range = zoom ?? whole
  const { rows, height } = rowsOf(timeline)
  const id = useId()
  return (
    <figure className="timeline staff-wide">
      <div className="timeline-tools">
        {ZOOMS.map(([how, icon]) => (
          <IconButton
            key={how}
            icon={icon}
            label={says.zoom[how]}
            onClick={() => setZoom(zoomed(whole, range, how))}
          />
        ))}
      </div>
      <svg
        role="img"
        aria-label={says.picture(titleOf(timeline.session), timeline.lanes.length)}
        viewBox={`0 0 ${WIDTH} ${height}`}
        className="timeline-picture"
      >
        <Fillings id="tl" />
        <Axis range={range} height={height} />
        {rows.map((row) => (
          <RowShape
            key={`${id} ${keyOf(row)}`}
            row={row}
            range={range}
            titles={titles}
            seconds={timeline.stretch_seconds}
          />
        ))}
      </svg>
      <Legend />
    </figure>
  )
}
