import { AUTH_DECISION_VERSION, type AuthDecision } from '../../schema/auth-decision.ts'

/** Where whole lines go, many at once. */
export type Write = (text: string) => void

export type Lines = {
  readonly add: (line: string) => void
  /** Writes what there is. Safe at any time; must be called at the end. */
  readonly flush: () => void
}

/** Half of what a pipe holds, so that a write need not wait for whoever reads it. */
const BYTES_MAX = 32 * 1024
const WAIT_MILLIS_MAX = 100

/**
 * Gathers lines into 32 KB before they are written: a call of a logger each costs a third of a decision's whole time. A line
 * waits at most a tenth of a second; a process that is killed loses at most that.
 */
export function createLines(write: Write): Lines {
  let held = ''
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    if (held === '') return
    const text = held
    held = ''
    write(text)
  }
  return {
    add: (line) => {
      held += line
      if (held.length >= BYTES_MAX) flush()
      else if (timer === undefined) {
        timer = setTimeout(flush, WAIT_MILLIS_MAX)
        timer.unref()
      }
    },
    flush,
  }
}

/** Ids and names of ours, and what was checked on its way in: they hold nothing that JSON escapes. */
const plain = (value: string | null): string => (value === null ? 'null' : `"${value}"`)
/** What came from outside. */
const quoted = (value: string | null): string => (value === null ? 'null' : JSON.stringify(value))

let second = -1
let secondText = ''

/** ISO 8601; only the milliseconds change within a second. */
function timeOf(millis: number): string {
  const now = Math.floor(millis / 1000)
  if (now !== second) {
    second = now
    secondText = new Date(now * 1000).toISOString().slice(0, 20)
  }
  return `${secondText}${String(Math.floor(millis) % 1000).padStart(3, '0')}Z`
}

type PlaceFacts = Pick<AuthDecision, 'method' | 'path' | 'service' | 'endpoint' | 'endpoint_access'>

/** The part of a line that says where a request goes. */
export const placeText = (of: PlaceFacts): string =>
  `,"method":${quoted(of.method)},"path":${quoted(of.path)},"service":${quoted(of.service)}` +
  `,"endpoint":${plain(of.endpoint)},"endpoint_access":${plain(of.endpoint_access)}`

export type DecisionFacts = Omit<AuthDecision, 'v' | 'event' | 'time' | keyof PlaceFacts> & {
  readonly at: number
  /** See `placeText`. */
  readonly place: string
}

/** One line of JSON. Written out by hand, since it is made once a request; a test holds it to the schema. */
export const lineOf = (d: DecisionFacts): string =>
  `{"v":${AUTH_DECISION_VERSION},"event":"AUTH_DECISION","time":"${timeOf(d.at)}"` +
  `,"request_id":${plain(d.request_id)},"trace_id":${plain(d.trace_id)}` +
  `,"tenant":${d.tenant_id === null ? quoted(d.tenant) : plain(d.tenant)},"tenant_id":${plain(d.tenant_id)},"proxy_id":${plain(d.proxy_id)}` +
  `,"family":"${d.family}"${d.place},"identity_type":${plain(d.identity_type)}` +
  `,"identity_id":${plain(d.identity_id)},"session_id":${plain(d.session_id)}` +
  `,"root_session_id":${plain(d.root_session_id)},"agent_id":${plain(d.agent_id)}` +
  `,"user_id":${plain(d.user_id)},"permission":${plain(d.permission)}` +
  `,"grant_id":${plain(d.grant_id)},"decision":"${d.decision}"` +
  `,"decision_reason":"${d.decision_reason}","status":${d.status}` +
  `,"token_cache":"${d.token_cache}","route_cache":"${d.route_cache}"` +
  `,"checked_by":"${d.checked_by}","micros":${d.micros}}\n`
