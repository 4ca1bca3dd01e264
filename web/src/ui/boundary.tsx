import { Component, type ReactNode, useEffect, useRef } from 'react'
import { useLine } from '../api/events.ts'
import { Unreachable } from '../api/http.ts'
import { words } from '../words.ts'
import { ErrorState } from './states.tsx'

/** Loads the whole page anew, and only when the server answers: else the browser's own error page would take its place. */
const reload = (): void => {
  void fetch(location.href, { cache: 'no-store' }).then(
    () => location.reload(),
    () => undefined,
  )
}

function Broken({ error }: { readonly error: unknown }) {
  const { state } = useLine()
  const wasLost = useRef(false)
  useEffect(() => {
    if (state === 'lost') wasLost.current = true
    // What was only out of reach comes by itself when the server is back.
    else if (state === 'live' && wasLost.current && error instanceof Unreachable) reload()
  }, [state, error])
  return (
    <main id="main" className="alone" tabIndex={-1}>
      <h1 className="visually-hidden">{words.product}</h1>
      <ErrorState error={error} what={words.state.pageFailed} onRetry={reload} />
    </main>
  )
}

type Props = { readonly where: string; readonly children: ReactNode }
type State = { readonly broken: { readonly error: unknown } | null }

/** A screen that breaks, or cannot be fetched, says so in its place: never a blank page. Going elsewhere leaves it. */
export class Boundary extends Component<Props, State> {
  override state: State = { broken: null }

  static getDerivedStateFromError(error: unknown): State {
    return { broken: { error } }
  }

  override componentDidUpdate(before: Props): void {
    if (before.where !== this.props.where && this.state.broken !== null)
      this.setState({ broken: null })
  }

  override render(): ReactNode {
    const { broken } = this.state
    return broken === null ? this.props.children : <Broken error={broken.error} />
  }
}
