import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef } from 'react'
import { useStored } from '../lib/hooks.ts'
import { words } from '../words.ts'

const STEP = 16
const BOUNDS = {
  left: { min: 200, max: 420, initial: 264 },
  right: { min: 280, max: 560, initial: 368 },
}
type Side = keyof typeof BOUNDS

const within = (side: Side, width: number): number =>
  Math.round(Math.min(BOUNDS[side].max, Math.max(BOUNDS[side].min, width)))

/** A bar between two panes, for pointer and keys. Its value is the width of the pane that it belongs to. */
function Separator({
  side,
  width,
  onWidth,
}: {
  readonly side: Side
  readonly width: number
  readonly onWidth: (width: number) => void
}) {
  const from = useRef<{ x: number; width: number } | null>(null)
  const away = side === 'left' ? 1 : -1
  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId)
    from.current = { x: event.clientX, width }
  }
  const onPointerMove = (event: PointerEvent) => {
    if (from.current)
      onWidth(within(side, from.current.width + away * (event.clientX - from.current.x)))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const to: Record<string, number> = {
      ArrowRight: width + away * STEP,
      ArrowLeft: width - away * STEP,
      Home: BOUNDS[side].min,
      End: BOUNDS[side].max,
    }
    const next = to[event.key]
    if (next === undefined) return
    event.preventDefault()
    onWidth(within(side, next))
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: an hr cannot be moved; this is the window splitter of ARIA practices.
    <div
      role="separator"
      className="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={words.nav.resize[side]}
      aria-valuenow={width}
      aria-valuemin={BOUNDS[side].min}
      aria-valuemax={BOUNDS[side].max}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={() => {
        from.current = null
      }}
      onPointerCancel={() => {
        from.current = null
      }}
      onDoubleClick={() => onWidth(BOUNDS[side].initial)}
      onKeyDown={onKeyDown}
    />
  )
}

/** Panes side by side; their widths are remembered on this device. */
export function Panes({
  left,
  middle,
  right,
  resizable,
}: {
  readonly left: ReactNode
  readonly middle: ReactNode
  readonly right: ReactNode | null
  readonly resizable: boolean
}) {
  const [widths, setWidths] = useStored('panes', {
    left: BOUNDS.left.initial,
    right: BOUNDS.right.initial,
  })
  const width = (side: Side) => (resizable ? within(side, widths[side]) : undefined)
  const separator = (side: Side) =>
    resizable && (
      <Separator
        side={side}
        width={within(side, widths[side])}
        onWidth={(next) => setWidths({ ...widths, [side]: next })}
      />
    )
  return (
    <div className="panes">
      <div className="pane pane-left" style={{ width: width('left') }}>
        {left}
      </div>
      {separator('left')}
      <div className="pane pane-middle">{middle}</div>
      {right !== null && (
        <>
          {separator('right')}
          <div className="pane pane-right" style={{ width: width('right') }}>
            {right}
          </div>
        </>
      )}
    </div>
  )
}
