import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { decodeJwt } from 'jose'
import type {
  RequestAccessResult,
  ToolArguments,
  ToolName,
  ToolResult,
} from '../../../schema/tools.ts'
import type { SessionClaims } from '../../../src/core/claims.ts'

type App = { readonly publicUrl: string; readonly clientId: string; readonly clientSecret: string }
type Issued = { access_token: string; refresh_token?: string; session_id: string }
type Refused = { error: string; error_description?: string; error_reason?: string }
export type ToolFault = {
  code: string
  message: string
  errors?: { path: string; message: string }[]
  limit?: string
  retry_after?: number
}
type ToolAnswer = {
  content: { type: string; text: string }[]
  structuredContent?: Record<string, unknown>
  isError?: boolean
}
type CallOptions = {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: { progress: number; message?: string | undefined }) => void
}
type AnyClient = {
  readonly call: (name: string, args: object, options: CallOptions) => Promise<ToolAnswer>
  readonly close: () => Promise<void>
}
type How = { readonly client?: 'older' | 'newer'; readonly via?: number }
type Item = ToolArguments<'iam.request_access'>['items'][number]

/** Names the instance that a request is for, where there are several. */
export const VIA = 'x-test-instance'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/**
 * A session as its host runs it: the app's credentials and the token stay with the host, and the model's calls go through
 * an official MCP client. The token is put on each request, so a refresh needs no new connection.
 */
export class Agent {
  readonly #app: App
  readonly #how: How
  #client: Promise<AnyClient> | undefined
  token = ''
  refreshToken = ''
  sessionId = ''

  private constructor(app: App, how: How) {
    this.#app = app
    this.#how = how
  }

  static async start(app: App, form: Record<string, string>, how: How): Promise<Agent> {
    const agent = new Agent(app, how)
    agent.#take(await agent.#exchange(form))
    return agent
  }

  #take(issued: Issued | Refused): void {
    if ('error' in issued) throw new Error(`no token: ${JSON.stringify(issued)}`)
    this.token = issued.access_token
    this.refreshToken = issued.refresh_token ?? this.refreshToken
    this.sessionId = issued.session_id
  }

  async #oauth(form: Record<string, string>): Promise<Issued | Refused> {
    const { clientId, clientSecret } = this.#app
    const response = await fetch(`${this.#app.publicUrl}/t/acme/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: clientId, client_secret: clientSecret, ...form }),
    })
    return (await response.json()) as Issued | Refused
  }

  #exchange(form: Record<string, string>): Promise<Issued | Refused> {
    return this.#oauth({ grant_type: EXCHANGE, subject_token_type: ACCESS_TOKEN, ...form })
  }

  /** What the token endpoint says to a refresh; the token is not replaced. */
  reissue(): Promise<Issued | Refused> {
    return this.#oauth({ grant_type: 'refresh_token', refresh_token: this.refreshToken })
  }

  async refresh(): Promise<void> {
    this.#take(await this.reissue())
  }

  /** The same session and token, its calls going to one instance. */
  on(via: number): Agent {
    const same = new Agent(this.#app, { ...this.#how, via })
    same.token = this.token
    same.refreshToken = this.refreshToken
    same.sessionId = this.sessionId
    return same
  }

  get claims(): SessionClaims {
    return decodeJwt<SessionClaims>(this.token)
  }

  /** The child session, taken up with this one's token. */
  async takeUp(sessionId: string, how: How = this.#how): Promise<Agent> {
    const child = new Agent(this.#app, how)
    child.#take(await this.#exchange({ subject_token: this.token, session_id: sessionId }))
    return child
  }

  readonly #fetch: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${this.token}`)
    if (this.#how.via !== undefined) headers.set(VIA, String(this.#how.via))
    return fetch(url, { ...init, headers })
  }

  get url(): URL {
    return new URL(`${this.#app.publicUrl}/t/acme/mcp`)
  }

  async #connect(): Promise<AnyClient> {
    const about = { name: 'test', version: '1' }
    if (this.#how.client === 'newer') {
      const client = new ModernClient(about, {
        versionNegotiation: { mode: { pin: '2026-07-28' } },
      })
      await client.connect(new ModernTransport(this.url, { fetch: this.#fetch }))
      await client.listTools()
      return {
        call: async (name, args, options) =>
          (await client.callTool({ name, arguments: { ...args } }, options)) as ToolAnswer,
        close: () => client.close(),
      }
    }
    const client = new Client(about)
    const transport = new StreamableHTTPClientTransport(this.url, { fetch: this.#fetch })
    // Its declared types predate exactOptionalPropertyTypes.
    await client.connect(transport as Parameters<Client['connect']>[0])
    // From now on the client checks every result against the tool's own schema.
    await client.listTools()
    return {
      call: async (name, args, options) =>
        (await client.callTool({ name, arguments: { ...args } }, undefined, options)) as ToolAnswer,
      close: () => client.close(),
    }
  }

  /** A tool's result or its error, as the model reads it. */
  async try<Name extends ToolName>(
    name: Name,
    args: ToolArguments<Name>,
    options: CallOptions = {},
  ): Promise<{ result: ToolResult<Name>; fault?: never } | { fault: ToolFault; result?: never }> {
    this.#client ??= this.#connect()
    const answer = await (await this.#client).call(name, args, options)
    const said = JSON.parse(answer.content[0]?.text ?? 'null')
    if (answer.isError === true) return { fault: said }
    if (JSON.stringify(said) !== JSON.stringify(answer.structuredContent))
      throw new Error('the text is not the structured content')
    return { result: said }
  }

  async call<Name extends ToolName>(
    name: Name,
    args: ToolArguments<Name>,
    options: CallOptions = {},
  ): Promise<ToolResult<Name>> {
    const { result, fault } = await this.try(name, args, options)
    if (result === undefined) throw new Error(`${name}: ${JSON.stringify(fault)}`)
    return result
  }

  async fault<Name extends ToolName>(name: Name, args: ToolArguments<Name>): Promise<ToolFault> {
    const { result, fault } = await this.try(name, args)
    if (fault === undefined) throw new Error(`${name} went well: ${JSON.stringify(result)}`)
    return fault
  }

  ask(
    items: readonly (Item | string)[],
    more: { reason?: string; wait_seconds?: number } = {},
    options: CallOptions = {},
  ): Promise<RequestAccessResult> {
    return this.call('iam.request_access', asked(items, more), options)
  }

  refusedCall(items: readonly (Item | string)[]): Promise<ToolFault> {
    return this.fault('iam.request_access', asked(items))
  }

  /** One item's outcome. */
  async askOne(
    item: Item | string,
    more: { wait_seconds?: number } = {},
  ): Promise<RequestAccessResult['items'][number]> {
    const [one] = (await this.ask([item], more)).items
    if (one === undefined) throw new Error('no item came back')
    return one
  }

  mine(): Promise<ToolResult<'iam.my_access'>> {
    return this.call('iam.my_access', {})
  }

  /** What is held, as `permission resource`, sorted. */
  async held(): Promise<string[]> {
    const { grants } = await this.mine()
    return grants.map((g) => [g.permission, g.resource].filter(Boolean).join(' ')).sort()
  }

  async subagent(
    how: { read_only?: boolean; task?: string; client?: 'older' | 'newer' } = {},
  ): Promise<Agent> {
    const { client, ...args } = how
    const child = await this.call('iam.start_subagent', { template: 'email-drafter', ...args })
    return this.takeUp(child.session_id, client === undefined ? this.#how : { client })
  }

  /** The status of a bare call with the token as it is: 401 once it is dead. */
  async status(): Promise<number> {
    const response = await this.#fetch(this.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
    })
    await response.body?.cancel()
    return response.status
  }

  /** A tool call on a connection that the test can cut. */
  raw(name: ToolName, args: object, signal?: AbortSignal): Promise<Response> {
    return this.#fetch(this.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name, arguments: args },
      }),
      ...(signal === undefined ? {} : { signal }),
    })
  }

  async close(): Promise<void> {
    await (await this.#client)?.close()
  }
}

const asked = (
  items: readonly (Item | string)[],
  more: { reason?: string; wait_seconds?: number } = {},
) => ({
  items: items.map((item) => (typeof item === 'string' ? itemNamed(item) : item)),
  reason: 'to write the brief',
  ...more,
})

/** `dashboard:view dashboard/q3-pipeline` as an item. */
function itemNamed(text: string): Item {
  const [permission = '', resource] = text.split(' ')
  return resource === undefined ? { permission } : { permission, resource }
}
