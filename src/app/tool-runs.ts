import { createHash } from 'node:crypto'
import type { ToolCallPart } from 'ai'
import type { LendClient } from './lend.ts'
import { SYSTEM } from './model.ts'
import type { Runner } from './runner.ts'
import type { ChatMessage, Thread } from './store.ts'
import { SERVICE_TOOLS } from './tools.ts'

type Step = NonNullable<ChatMessage['step']>
type Value = Record<string, unknown>

type Running = {
  readonly runId: string
  readonly thread: Thread
  readonly call: ToolCallPart
  readonly signal: AbortSignal
  readonly lend: LendClient
}

const IAM_TITLES: Readonly<Record<string, string>> = {
  iam_request_access: 'Ask for access',
  iam_my_access: 'Look at what it holds',
  iam_describe_permissions: 'Look for permissions',
  iam_explain: 'Look a permission up',
  iam_start_subagent: 'Start a subagent',
  iam_release_access: 'Give access back',
  iam_end_session: 'End the session',
}

const objectOf = (value: unknown): Value =>
  typeof value === 'object' && value !== null ? { ...value } : {}

/** Asking again while it waits is one step to the person who watches, not twenty. */
function stepId({ thread, call }: Running): string {
  if (call.toolName !== 'iam_request_access') return call.toolCallId
  const items = JSON.stringify(objectOf(call.input).items ?? null)
  const asked = thread.messages.filter((m) => m.role === 'user').length
  return `ask-${createHash('sha256').update(`${thread.sessionId} ${asked} ${items}`).digest('hex').slice(0, 24)}`
}

/**
 * Runs one tool call and shows it as a step. A refusal is an answer to the model, not a failure of the run; only what ends
 * the run is thrown.
 */
export async function runTool(runner: Runner, of: Running): Promise<Value> {
  const { thread, call, runId } = of
  const service = SERVICE_TOOLS[call.toolName]
  const title = service?.title ?? IAM_TITLES[call.toolName] ?? call.toolName
  const id = stepId(of)
  const show = (step: Partial<Step>) =>
    runner.say(runId, {
      id,
      role: 'step',
      session_id: thread.sessionId,
      ...(thread.path.length === 0 ? {} : { path: thread.path }),
      step: { tool: call.toolName, title, status: 'running', ...step },
    })
  show({})
  if (service !== undefined) return runService(of, show)
  if (call.toolName === 'iam_start_subagent') return runSubagent(runner, of, show)
  if (call.toolName === 'iam_request_access') return runAsking(runner, of, show)
  const value = await of.lend.callTool(thread, call.toolName, objectOf(call.input))
  show({ status: value.failed === true ? 'failed' : 'done', ...said(value) })
  return value
}

/** Asks, and waits a while for the person. Being stopped ends the wait; the question stays, and is asked again later. */
async function runAsking(
  runner: Runner,
  { runId, thread, call, signal, lend }: Running,
  show: (step: Partial<Step>) => void,
): Promise<Value> {
  runner.waiting(runId, signal, true)
  try {
    const value = await lend.callTool(thread, call.toolName, objectOf(call.input), signal)
    show(asked(value))
    return value
  } catch (error) {
    if (signal.aborted) show({ status: 'failed', summary: 'Stopped while it waited' })
    throw error
  } finally {
    runner.waiting(runId, signal, false)
  }
}

const said = (value: Value): Partial<Step> =>
  typeof value.message === 'string' ? { summary: value.message } : {}

type Outcome = { readonly permission: string; readonly outcome: string; readonly message: string }

function asked(value: Value): Partial<Step> {
  const items = (Array.isArray(value.items) ? value.items : []) as Outcome[]
  if (value.failed === true) return { status: 'failed', ...said(value) }
  const request = typeof value.request_id === 'string' ? { request_id: value.request_id } : {}
  if (items.some((i) => i.outcome === 'pending'))
    return { status: 'running', summary: 'Waiting for your answer', ...request }
  const refused = items.filter((i) => i.outcome === 'refused').length
  const granted = items.length - refused
  return {
    status: granted === 0 ? 'refused' : 'done',
    summary: `${granted} granted${refused === 0 ? '' : `, ${refused} not`}`,
    ...request,
  }
}

async function runService(of: Running, show: (step: Partial<Step>) => void): Promise<Value> {
  const service = SERVICE_TOOLS[of.call.toolName]
  const input = service?.input.safeParse(of.call.input ?? {})
  if (service === undefined || input?.success !== true) {
    show({ status: 'failed', summary: 'The arguments were not understood' })
    return { error: 'bad_arguments', message: input?.error?.message ?? 'no such tool' }
  }
  const { status, body } =
    'server' in service
      ? await of.lend.callGateway(of.thread, {
          server: service.server,
          tool: of.call.toolName,
          args: input.data,
        })
      : await of.lend.callService(of.thread, service.call(input.data))
  const value = objectOf(body)
  if (status === 401 || status === 403)
    show({ status: 'refused', summary: 'The service refused: it is not held' })
  else if (status >= 400) show({ status: 'failed', summary: `The service answered ${status}` })
  else
    show({
      status: 'done',
      ...(Array.isArray(value.items) ? { summary: `${value.items.length} found` } : {}),
    })
  return { status, ...value }
}

/** Starts a child, or goes on with the one that this very call started before a restart, and waits for its last words. */
async function runSubagent(
  runner: Runner,
  of: Running,
  show: (step: Partial<Step>) => void,
): Promise<Value> {
  const { runId, thread, call, lend, signal } = of
  const begun = runner.threads(runId).find((one) => one.startedBy === call.toolCallId)
  const args = objectOf(call.input)
  let child = begun?.sessionId
  let value: Value = { session_id: child }
  if (child === undefined) {
    value = await lend.callTool(thread, call.toolName, args)
    if (typeof value.session_id !== 'string') {
      show({ status: 'refused', ...said(value) })
      return value
    }
    child = value.session_id
    const claimed = await lend.claimChild({ parent: thread, sessionId: child })
    const held = await lend.callTool(claimed, 'iam_my_access', {})
    const template = String(value.template ?? '').split('@')[0] ?? ''
    const title = `${template.charAt(0).toUpperCase()}${template.slice(1).replaceAll('-', ' ')}`
    runner.saveThread(runId, {
      sessionId: child,
      template,
      path: [...thread.path, title],
      refreshToken: claimed.refreshToken,
      startedBy: call.toolCallId,
      system: `${SYSTEM}\n\n${String(held.context ?? '')}`,
      messages: [{ role: 'user', content: String(args.task ?? 'Help with the task.') }],
    })
  }
  const answer = await runner.work(runId, child, signal)
  show({ status: 'done', summary: 'The subagent is done' })
  return { ...value, answer }
}
