import { type ModelMessage, streamText, type ToolCallPart } from 'ai'
import type { AppConfig, AppTenant } from './config.ts'
import { type Claimed, LendClient, LendRefused } from './lend.ts'
import { type Brain, SYSTEM } from './model.ts'
import type { ChatMessage, Run, RunState, Store, Thread } from './store.ts'
import { runTool } from './tool-runs.ts'
import { toolsFor } from './tools.ts'

/** A model that goes round in circles is stopped; a person who wants more says so. */
const STEPS_MAX = 400

export type RunEvent =
  | { readonly event: 'message'; readonly message: ChatMessage }
  | { readonly event: 'delta'; readonly id: string; readonly text: string }
  | { readonly event: 'state'; readonly state: RunState }

type Listener = (event: RunEvent) => void

/** A run at work. `over` when nothing of it is under way any more, whatever became of it. */
type Loop = { readonly controller: AbortController; readonly over: Promise<void> }

/**
 * Runs agents: one loop a session, each step kept before the next begins, so that a restart in the middle goes on from
 * where it was. The model sees what tools answer; tokens stay in `LendClient`.
 */
export class Runner {
  readonly #config: AppConfig
  readonly #store: Store
  readonly #brain: Brain
  readonly #lend = new Map<string, LendClient>()
  readonly #working = new Map<string, Loop>()
  readonly #listeners = new Map<string, Set<Listener>>()

  constructor(config: AppConfig, store: Store, brain: Brain) {
    this.#config = config
    this.#store = store
    this.#brain = brain
    for (const tenant of config.tenants)
      this.#lend.set(tenant.slug, new LendClient(config.publicUrl, tenant))
  }

  lendOf(tenant: string): LendClient {
    const lend = this.#lend.get(tenant)
    if (lend === undefined) throw new Error(`the app serves no tenant ${tenant}`)
    return lend
  }

  tenantOf(slug: string): AppTenant | undefined {
    return this.#config.tenants.find((tenant) => tenant.slug === slug)
  }

  /** Goes on with what was under way when the process ended. */
  resume(): void {
    for (const run of this.#store.runs())
      if (run.state === 'working' || run.state === 'waiting') this.#begin(run.sessionId)
  }

  /** Claims the session and sets to work. Throws `LendRefused` when Lend says no. */
  async start(of: {
    tenant: string
    subject: string
    userToken: string
    sessionId: string
    task: string
  }): Promise<Run> {
    const claimed = await this.lendOf(of.tenant).claim({
      sessionId: of.sessionId,
      userToken: of.userToken,
    })
    const held = await this.lendOf(of.tenant).callTool(claimed, 'iam_my_access', {})
    const template = String(held.template ?? '').split('@')[0] ?? ''
    const thread: Thread = {
      sessionId: of.sessionId,
      template,
      path: [],
      refreshToken: claimed.refreshToken,
      system: `${SYSTEM}\n\n${String(held.context ?? '')}`,
      messages: [{ role: 'user', content: of.task }],
    }
    const run: Run = {
      sessionId: of.sessionId,
      tenant: of.tenant,
      subject: of.subject,
      state: 'working',
      chat: [],
      threads: { [of.sessionId]: thread },
    }
    this.#store.saveRun(run)
    this.say(of.sessionId, {
      id: crypto.randomUUID(),
      role: 'user',
      session_id: of.sessionId,
      text: of.task,
    })
    this.#begin(of.sessionId)
    return this.#run(of.sessionId)
  }

  /** Something more from the person. A run that stopped or failed goes on. */
  message(sessionId: string, text: string): void {
    const run = this.#run(sessionId)
    const thread = this.thread(run.sessionId, run.sessionId)
    this.saveThread(sessionId, {
      ...thread,
      messages: [...thread.messages, { role: 'user', content: text }],
    })
    this.say(sessionId, { id: crypto.randomUUID(), role: 'user', session_id: sessionId, text })
    this.#begin(sessionId)
  }

  /** Stops the agent, not the session: what was lent stays until the session ends. */
  stop(sessionId: string): void {
    this.#working.get(sessionId)?.controller.abort()
    if (this.#run(sessionId).state !== 'ended') this.#setState(sessionId, 'stopped')
  }

  subscribe(sessionId: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(sessionId) ?? new Set()
    listeners.add(listener)
    this.#listeners.set(sessionId, listeners)
    return () => listeners.delete(listener)
  }

  /** Ends every loop; the transcripts say where to go on. */
  close(): void {
    for (const { controller } of this.#working.values()) controller.abort()
  }

  #run(sessionId: string): Run {
    const run = this.#store.run(sessionId)
    if (run === undefined) throw new Error(`no run ${sessionId}`)
    return run
  }

  #emit(sessionId: string, event: RunEvent): void {
    for (const listener of this.#listeners.get(sessionId) ?? []) listener(event)
  }

  #setState(sessionId: string, state: RunState): void {
    const run = this.#run(sessionId)
    if (run.state === state) return
    this.#store.saveRun({ ...run, state })
    this.#emit(sessionId, { event: 'state', state })
  }

  /** Waiting for the person, or at work again. What was stopped meanwhile stays stopped. */
  waiting(runId: string, signal: AbortSignal, yes: boolean): void {
    if (!signal.aborted) this.#setState(runId, yes ? 'waiting' : 'working')
  }

  /** Adds to the chat, or replaces what has the same id. */
  say(runId: string, message: Omit<ChatMessage, 'at'> & { readonly at?: string }): void {
    const run = this.#run(runId)
    const at = run.chat.findIndex((one) => one.id === message.id)
    const whole: ChatMessage = { at: run.chat[at]?.at ?? new Date().toISOString(), ...message }
    const chat = at === -1 ? [...run.chat, whole] : run.chat.with(at, whole)
    this.#store.saveRun({ ...run, chat })
    this.#emit(runId, { event: 'message', message: whole })
  }

  thread(runId: string, sessionId: string): Thread {
    const thread = this.#run(runId).threads[sessionId]
    if (thread === undefined) throw new Error(`no thread ${sessionId}`)
    return thread
  }

  threads(runId: string): readonly Thread[] {
    return Object.values(this.#run(runId).threads)
  }

  saveThread(runId: string, thread: Thread): void {
    const run = this.#run(runId)
    this.#store.saveRun({ ...run, threads: { ...run.threads, [thread.sessionId]: thread } })
  }

  #begin(runId: string): void {
    const before = this.#working.get(runId)
    if (before !== undefined && !before.controller.signal.aborted) return
    const controller = new AbortController()
    const { signal } = controller
    this.#setState(runId, 'working')
    // One that was stopped may still finish its last call. Two at once would do the next one twice.
    const over = (before?.over ?? Promise.resolve())
      .then(() => this.work(runId, runId, signal))
      .then(
        () => {
          if (!signal.aborted) this.#setState(runId, 'idle')
        },
        (error: unknown) => this.#broke(runId, signal, error),
      )
      .catch(this.#config.onBug)
      .then(() => {
        if (this.#working.get(runId) === loop) this.#working.delete(runId)
      })
    const loop: Loop = { controller, over }
    this.#working.set(runId, loop)
  }

  #broke(runId: string, signal: AbortSignal, error: unknown): void {
    if (signal.aborted) return
    const over = error instanceof LendRefused
    const text = over
      ? `I cannot go on: ${error.message}`
      : 'Something failed on the way. Nothing more was done. Write to me to try again.'
    if (!over) this.#config.onBug(error)
    this.say(runId, { id: crypto.randomUUID(), role: 'agent', session_id: runId, text })
    const gone =
      over &&
      [
        'session_over',
        'refresh_token_invalid',
        'session_not_found',
        'user_disabled',
        'agent_disabled',
      ].includes(error.reason)
    this.#setState(runId, gone ? 'ended' : 'failed')
  }

  /** One thread's loop: a step, its tools, the next step, until the model has nothing more to call. Returns its last words. */
  async work(runId: string, sessionId: string, signal: AbortSignal): Promise<string> {
    const tenant = this.#run(runId).tenant
    for (let step = 0; step < STEPS_MAX; step++) {
      signal.throwIfAborted()
      const thread = this.thread(runId, sessionId)
      const open = openCalls(thread.messages)
      if (open.length === 0) {
        const last = thread.messages.at(-1)
        if (last?.role === 'assistant') return textOf(last)
        await this.#think(runId, thread, tenant, signal)
        continue
      }
      for (const call of open) {
        const value = await runTool(this, {
          runId,
          thread: this.thread(runId, sessionId),
          call,
          signal,
          lend: this.lendOf(tenant),
        })
        const now = this.thread(runId, sessionId)
        this.saveThread(runId, { ...now, messages: answered(now.messages, call, value) })
        // What comes after the end of the session would only be refused.
        if (call.toolName === 'iam_end_session' && sessionId === runId)
          this.#setState(runId, 'ended')
      }
    }
    throw new Error('too many steps')
  }

  async #think(runId: string, thread: Thread, tenant: string, signal: AbortSignal): Promise<void> {
    const session: Claimed = thread
    const tools = await toolsFor(this.lendOf(tenant), session)
    const result = streamText({
      model: this.#brain.modelFor(thread.template),
      system: thread.system,
      messages: [...thread.messages],
      tools,
      abortSignal: signal,
      maxRetries: 2,
      onError: ({ error }) => this.#config.onBug(error),
    })
    const id = crypto.randomUUID()
    const where = {
      session_id: thread.sessionId,
      ...(thread.path.length === 0 ? {} : { path: thread.path }),
    }
    let text = ''
    for await (const delta of result.textStream) {
      if (text === '') this.say(runId, { id, role: 'agent', ...where, text: '' })
      text += delta
      this.#emit(runId, { event: 'delta', id, text: delta })
    }
    if (text !== '') this.say(runId, { id, role: 'agent', ...where, text })
    const { messages } = await result.response
    const now = this.thread(runId, thread.sessionId)
    // What the person wrote meanwhile comes after: the model has not seen it yet.
    const seen = thread.messages.length
    const after = [...messages, ...now.messages.slice(seen)]
    this.saveThread(runId, { ...now, messages: [...now.messages.slice(0, seen), ...after] })
  }
}

/** Tool calls of the last step that have no answer yet: what to do first after a restart. */
function openCalls(messages: readonly ModelMessage[]): readonly ToolCallPart[] {
  const answered = new Set(
    messages.flatMap((m) =>
      m.role === 'tool'
        ? m.content.flatMap((p) => (p.type === 'tool-result' ? [p.toolCallId] : []))
        : [],
    ),
  )
  return messages.flatMap((m) =>
    m.role === 'assistant' && typeof m.content !== 'string'
      ? m.content.flatMap((p) => (p.type === 'tool-call' && !answered.has(p.toolCallId) ? [p] : []))
      : [],
  )
}

const textOf = (message: ModelMessage): string =>
  typeof message.content === 'string'
    ? message.content
    : message.content.flatMap((p) => (p.type === 'text' ? [p.text] : [])).join('')

/** An answer stands right behind its call, also when the person has written meanwhile. */
function answered(
  messages: readonly ModelMessage[],
  call: ToolCallPart,
  value: Record<string, unknown>,
): readonly ModelMessage[] {
  const asked = messages.findLastIndex((m) => m.role === 'assistant')
  let at = asked + 1
  while (messages[at]?.role === 'tool') at++
  return [...messages.slice(0, at), answerTo(call, value), ...messages.slice(at)]
}

const answerTo = (call: ToolCallPart, value: Record<string, unknown>): ModelMessage => ({
  role: 'tool',
  content: [
    {
      type: 'tool-result',
      toolCallId: call.toolCallId,
      toolName: call.toolName,
      output: { type: 'json', value: JSON.parse(JSON.stringify(value)) },
    },
  ],
})
