import { Check, ChevronRight, CircleSlash, CircleX, LoaderCircle } from 'lucide-react'
import type { Message, Step } from '../api/types.ts'
import { clock, count, duration, plain, plainLines } from '../lib/text.ts'
import { classes, Time } from '../ui/parts.tsx'
import { words } from '../words.ts'

function Path({ path }: { readonly path: readonly string[] }) {
  if (path.length < 2) return null
  return <span className="message-path">{path.map(plain).join(' › ')}</span>
}

/** What somebody said, as text and nothing else: no markup of an agent's is ever made into a page. */
export function Words({
  message,
  agent,
  path,
}: {
  readonly message: Message
  readonly agent: string
  /** Titles from the root to whoever speaks, as the server has them. */
  readonly path: readonly string[]
}) {
  const mine = message.role === 'user'
  const who = path.length > 1 ? (path.at(-1) ?? agent) : agent
  return (
    <article className={classes('message', mine ? 'message-user' : 'message-agent')}>
      <p className="message-head">
        <span className="message-who">{mine ? words.chat.you : plain(who)}</span>
        <Path path={path} />
        <Time iso={message.at}>{clock(message.at)}</Time>
      </p>
      <div className="message-text" dir="auto">
        {plainLines(message.text ?? '')}
      </div>
    </article>
  )
}

const STEP_ICON = {
  running: LoaderCircle,
  done: Check,
  refused: CircleSlash,
  failed: CircleX,
} as const

function StepLine({ step, at }: { readonly step: Step; readonly at: string }) {
  const Icon = STEP_ICON[step.status]
  return (
    <li className={`step-line step-${step.status}`}>
      <Icon aria-hidden="true" size={14} className={step.status === 'running' ? 'spin' : ''} />
      <span className="step-text">
        <span className="step-name">{plain(step.title)}</span>{' '}
        <span className="step-status">{words.chat.step[step.status]}</span>
        {step.summary !== undefined && (
          <span className="step-summary" dir="auto">
            {plain(step.summary)}
          </span>
        )}
        <code className="step-tool">{plain(step.tool)}</code>
      </span>
      <Time iso={at}>{clock(at)}</Time>
    </li>
  )
}

const stepsWords = (steps: readonly Message[]): string => {
  const [first, last] = [steps[0], steps.at(-1)]
  const seconds = first && last ? (Date.parse(last.at) - Date.parse(first.at)) / 1000 : 0
  return `${count(steps.length, 'step')}${seconds >= 1 ? `, ${duration(seconds)}` : ''}`
}

/** What the agent did, in one line that opens. What is running now is named without opening it. */
export function Steps({
  steps,
  path,
}: {
  readonly steps: readonly Message[]
  readonly path: readonly string[]
}) {
  const last = steps.at(-1)?.step
  const refused = steps.filter((one) => one.step?.status === 'refused').length
  const running = last?.status === 'running'
  return (
    <details className="steps">
      <summary>
        <ChevronRight aria-hidden="true" size={15} className="steps-arrow" />
        <Path path={path} />
        <span>{stepsWords(steps)}</span>
        {last && (
          <span className={classes('steps-last', running && 'steps-running')}>
            {plain(last.title)}
          </span>
        )}
        {refused > 0 && <span className="steps-refused">{words.chat.refused(refused)}</span>}
      </summary>
      <ul className="step-lines">
        {steps.map(
          (message) =>
            message.step && <StepLine key={message.id} step={message.step} at={message.at} />,
        )}
      </ul>
    </details>
  )
}
