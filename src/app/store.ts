import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { ModelMessage } from 'ai'

/** What a person sees in the chat. A step is something the agent did. */
export type ChatMessage = {
  readonly id: string
  readonly at: string
  readonly role: 'user' | 'agent' | 'step'
  readonly session_id: string
  /** Titles from the root to a subagent; absent for the root. */
  readonly path?: readonly string[]
  readonly text?: string
  readonly step?: {
    readonly tool: string
    readonly title: string
    readonly status: 'running' | 'done' | 'refused' | 'failed'
    readonly summary?: string
    readonly request_id?: string
  }
}

export type RunState = 'working' | 'waiting' | 'idle' | 'stopped' | 'failed' | 'ended'

/** One session as the app runs it: its credentials, what its model has been told, and for a subagent whom it answers. */
export type Thread = {
  readonly sessionId: string
  readonly template: string
  readonly path: readonly string[]
  readonly refreshToken: string
  /** What its model is told before all else. */
  readonly system: string
  readonly messages: readonly ModelMessage[]
  /** The parent's tool call that started it; absent for the root. */
  readonly startedBy?: string
}

export type Run = {
  readonly sessionId: string
  readonly tenant: string
  /** Who may see it: the person's subject at their identity provider. */
  readonly subject: string
  readonly state: RunState
  readonly chat: readonly ChatMessage[]
  /** The root first, then subagents by session id. */
  readonly threads: Readonly<Record<string, Thread>>
}

/** A browser signed in to the app, with the token that the app may exchange. It never leaves the server. */
export type Browser = {
  readonly secret: string
  readonly tenant: string
  readonly subject: string
  readonly login: string
  readonly accessToken: string
  readonly expiresAt: number
}

export type Store = {
  readonly run: (sessionId: string) => Run | undefined
  readonly runs: () => readonly Run[]
  readonly saveRun: (run: Run) => void
  readonly browser: (secret: string) => Browser | undefined
  readonly saveBrowser: (browser: Browser) => void
  readonly dropBrowser: (secret: string) => void
}

/** Whole or not at all: a crash leaves the old file or the new one. Only its owner can read it. */
function writeWhole(file: string, value: unknown): void {
  const part = `${file}.${randomBytes(6).toString('hex')}.part`
  writeFileSync(part, JSON.stringify(value), { mode: 0o600 })
  renameSync(part, file)
}

const SESSION_ID = /^ses_[A-Za-z0-9]{1,64}$/

/** Transcripts and credentials in files of the app's own; in memory only when there is no folder. */
export function createStore(folder: string | null): Store {
  const runs = new Map<string, Run>()
  const browsers = new Map<string, Browser>()
  const browsersFile = folder === null ? null : join(folder, 'browsers.json')
  if (folder !== null) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(folder)) {
      if (!name.startsWith('ses_') || !name.endsWith('.json')) continue
      const run: Run = JSON.parse(readFileSync(join(folder, name), 'utf8'))
      runs.set(run.sessionId, run)
    }
    if (browsersFile !== null && existsSync(browsersFile)) {
      const kept: Browser[] = JSON.parse(readFileSync(browsersFile, 'utf8'))
      for (const browser of kept) browsers.set(browser.secret, browser)
    }
  }
  const keepBrowsers = () => {
    const now = Date.now() / 1000
    for (const [secret, browser] of browsers) if (browser.expiresAt <= now) browsers.delete(secret)
    if (browsersFile !== null) writeWhole(browsersFile, [...browsers.values()])
  }
  return {
    run: (sessionId) => runs.get(sessionId),
    runs: () => [...runs.values()],
    saveRun: (run) => {
      runs.set(run.sessionId, run)
      if (folder !== null && SESSION_ID.test(run.sessionId))
        writeWhole(join(folder, `${run.sessionId}.json`), run)
    },
    browser: (secret) => {
      const found = browsers.get(secret)
      return found !== undefined && found.expiresAt > Date.now() / 1000 ? found : undefined
    },
    saveBrowser: (browser) => {
      browsers.set(browser.secret, browser)
      keepBrowsers()
    },
    dropBrowser: (secret) => {
      browsers.delete(secret)
      keepBrowsers()
    },
  }
}
