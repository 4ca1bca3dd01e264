import type { z } from 'zod'
import type { accessRequest, problem, rule, session } from '../../../schema/people.ts'
import { VIA } from './agent.ts'
import { until } from './until.ts'

export type RequestView = z.output<typeof accessRequest>
export type Problem = z.output<typeof problem>
export type RuleView = z.output<typeof rule>
export type SessionView = z.output<typeof session>
export type Decision = 'allow_once' | 'allow_always' | 'deny' | 'deny_always'

/** What came, in whatever shape; the assertion says which. */
export type Answer<Body> = { readonly status: number; readonly body: Body }

type Answering = {
  readonly note?: string
  readonly digest?: string
  /** Which instance answers; absent: whichever is next. */
  readonly via?: number
}

/** Somebody of acme at the People API, through the first-party client. */
export class Person {
  readonly #publicUrl: string
  readonly login: string
  readonly token: string

  constructor(publicUrl: string, login: string, token: string) {
    this.#publicUrl = publicUrl
    this.login = login
    this.token = token
  }

  async call<Body>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<Body>> {
    const response = await fetch(`${this.#publicUrl}/t/acme/api${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? {} : JSON.parse(text) }
  }

  /** As `call`; anything but a success is thrown. */
  async must<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.call<Body>(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
    return answer.body
  }

  /** A session that waits for the agent to take it up. */
  async create(of: {
    agent_id: string
    mode: string
    mode_expires_at: string | undefined
  }): Promise<string> {
    const body = { ...of, template: 'renewal-briefs' }
    return (await this.must<SessionView>('POST', '/sessions', body)).id
  }

  request(id: string): Promise<RequestView> {
    return this.must<RequestView>('GET', `/access-requests/${id}`)
  }

  async pending(): Promise<RequestView[]> {
    const path = '/access-requests?status=pending'
    return (await this.must<{ items: RequestView[] }>('GET', path)).items
  }

  /** The question of one session, as soon as it is asked. */
  asked(by: { readonly sessionId: string }): Promise<RequestView> {
    const find = async () =>
      (await this.pending()).find((request) => request.session_id === by.sessionId)
    return until(find, `${by.sessionId} asks`)
  }

  /** Answers every pending item: all alike, or each as `decisions` says by permission. */
  async answer(
    id: string | undefined,
    decisions: Decision | Readonly<Record<string, Decision>>,
    how: Answering = {},
  ): Promise<Answer<RequestView & Pick<Problem, 'code' | 'errors'>>> {
    if (id === undefined) throw new Error('nothing was asked')
    const { digest, items } = await this.request(id)
    const body = {
      digest: how.digest ?? digest,
      items: items
        .filter((item) => item.outcome === 'pending')
        .map((item) => ({
          id: item.id,
          decision: typeof decisions === 'string' ? decisions : decisions[item.permission],
        })),
      ...(how.note === undefined ? {} : { note: how.note }),
    }
    const headers: Record<string, string> = how.via === undefined ? {} : { [VIA]: String(how.via) }
    return this.call('POST', `/access-requests/${id}/decision`, body, headers)
  }

  /** Freezes, and gives what unfreezes. */
  async freeze(scope: string, id: string): Promise<() => Promise<void>> {
    const made = await this.must<{ id: string }>('POST', '/freezes', { scope, id })
    return async () => {
      await this.must('DELETE', `/freezes/${made.id}`)
    }
  }

  rule(of: { permission: string; resource?: string; effect: string; template?: string }) {
    return this.must<RuleView>('POST', '/rules', { template: 'renewal-briefs', ...of })
  }

  async tidy(): Promise<void> {
    type Page<Item> = { items: Item[] }
    const sessions = await this.must<Page<SessionView>>('GET', '/sessions?status=active')
    for (const one of sessions.items.filter((s) => s.parent_id === undefined))
      await this.must('POST', `/sessions/${one.id}/end`)
    const rules = await this.must<Page<RuleView>>('GET', '/rules')
    for (const one of rules.items) await this.must('DELETE', `/rules/${one.id}`)
  }
}
