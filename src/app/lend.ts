import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import * as oauth from 'oauth4webapi'
import type { AppTenant } from './config.ts'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
/** Tokens are re-issued this long before they end. */
const EARLY_SECONDS = 60
const CALL_MILLIS_MAX = 90_000

/** Lend said no: the session is over, frozen, or the credential is not good. `reason` is its `error_reason`. */
export class LendRefused extends Error {
  readonly reason: string
  constructor(reason: string, message: string) {
    super(message)
    this.name = 'LendRefused'
    this.reason = reason
  }
}

type TokenAnswer = {
  readonly access_token: string
  readonly expires_in: number
  readonly session_id: string
  readonly refresh_token?: string
}

export type Claimed = { readonly sessionId: string; readonly refreshToken: string }
type Cached = { readonly token: string; readonly until: number }

/** What an agent's app does at Lend for one tenant. Tokens stay in here: neither the model nor the browser sees one. */
export class LendClient {
  readonly #publicUrl: string
  readonly #tenant: AppTenant
  /** By session and audience; dropped when a call says that what is held has changed. */
  readonly #tokens = new Map<string, Cached>()

  constructor(publicUrl: string, tenant: AppTenant) {
    this.#publicUrl = publicUrl
    this.#tenant = tenant
  }

  get #issuer(): string {
    return `${this.#publicUrl}/t/${this.#tenant.slug}`
  }

  async #token(parameters: Record<string, string>): Promise<TokenAnswer> {
    const as: oauth.AuthorizationServer = {
      issuer: this.#issuer,
      token_endpoint: `${this.#issuer}/oauth/token`,
    }
    const client: oauth.Client = { client_id: this.#tenant.agent.id }
    const { grant_type: grantType = '', ...rest } = parameters
    const response = await oauth.genericTokenEndpointRequest(
      as,
      client,
      oauth.ClientSecretBasic(this.#tenant.agent.secret),
      grantType,
      rest,
      { [oauth.allowInsecureRequests]: this.#publicUrl.startsWith('http:') },
    )
    const body = (await response.json()) as TokenAnswer & {
      error_reason?: string
      error_description?: string
    }
    if (!response.ok)
      throw new LendRefused(body.error_reason ?? 'refused', body.error_description ?? 'refused')
    return body
  }

  /** Claims a session that its user created, with the user's token that this app was given (SPEC section 6.1). */
  async claim(of: { readonly sessionId: string; readonly userToken: string }): Promise<Claimed> {
    const body = await this.#token({
      grant_type: EXCHANGE,
      subject_token: of.userToken,
      subject_token_type: ACCESS_TOKEN,
      session_id: of.sessionId,
    })
    return this.#claimed(body)
  }

  /** Claims a subagent's session with its parent's control token (SPEC section 6.3). */
  async claimChild(of: { readonly parent: Claimed; readonly sessionId: string }): Promise<Claimed> {
    const body = await this.#token({
      grant_type: EXCHANGE,
      subject_token: await this.#control(of.parent),
      subject_token_type: ACCESS_TOKEN,
      session_id: of.sessionId,
    })
    return this.#claimed(body)
  }

  #claimed(body: TokenAnswer): Claimed {
    if (body.refresh_token === undefined)
      throw new LendRefused('no_refresh_token', 'no refresh token came back')
    this.#keep(body.session_id, '', body)
    return { sessionId: body.session_id, refreshToken: body.refresh_token }
  }

  #keep(sessionId: string, audience: string, body: TokenAnswer): string {
    const until = Date.now() / 1000 + body.expires_in - EARLY_SECONDS
    this.#tokens.set(`${sessionId} ${audience}`, { token: body.access_token, until })
    return body.access_token
  }

  async #issued(session: Claimed, audience: string): Promise<string> {
    const kept = this.#tokens.get(`${session.sessionId} ${audience}`)
    if (kept !== undefined && kept.until > Date.now() / 1000) return kept.token
    const body = await this.#token({
      grant_type: 'refresh_token',
      refresh_token: session.refreshToken,
      ...(audience === '' ? {} : { resource: audience }),
    })
    return this.#keep(session.sessionId, audience, body)
  }

  #control(session: Claimed): Promise<string> {
    return this.#issued(session, '')
  }

  /** What is held has changed: the next use of any token of the session re-issues it. */
  forget(sessionId: string): void {
    for (const key of this.#tokens.keys())
      if (key.startsWith(`${sessionId} `)) this.#tokens.delete(key)
  }

  /** The iam tools as a model that takes no dots is shown them. */
  async listTools(session: Claimed) {
    return this.#withMcp(session, async (client) => (await client.listTools()).tools)
  }

  /** Calls an iam tool. A result that says `token_refresh` makes the next call carry a new token. */
  async callTool(
    session: Claimed,
    name: string,
    args: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const how = { timeout: CALL_MILLIS_MAX, ...(signal === undefined ? {} : { signal }) }
    const result = await this.#withMcp(session, (client) =>
      client.callTool({ name, arguments: args }, undefined, how),
    )
    const structured = result.structuredContent as Record<string, unknown> | undefined
    const content = result.content as { type: string; text?: string }[] | undefined
    const value = structured ?? readJson(content?.[0]?.text)
    if (result.isError !== true && value.token_refresh === true) this.forget(session.sessionId)
    return result.isError === true ? { ...value, failed: true } : value
  }

  /**
   * Calls a tool of a server behind the tool gateway, with a token for that server alone. Answers as a service does: 403 is a
   * refusal that says what to ask for.
   */
  async callGateway(
    session: Claimed,
    of: { readonly server: string; readonly tool: string; readonly args: Record<string, unknown> },
  ): Promise<{ status: number; body: unknown }> {
    const audience = `${this.#issuer}/tools/${of.server}/mcp`
    const params = { name: of.tool, arguments: of.args }
    const how = { timeout: CALL_MILLIS_MAX }
    const result = await this.#withMcp(
      session,
      (client) => client.callTool(params, undefined, how),
      { url: audience, audience },
    )
    const content = result.content as { type: string; text?: string }[] | undefined
    const structured = result.structuredContent as Record<string, unknown> | undefined
    const body = structured ?? readJson(content?.[0]?.text)
    if (result.isError !== true) return { status: 200, body }
    return { status: body.code === 'access_needed' ? 403 : 502, body }
  }

  async #withMcp<T>(
    session: Claimed,
    use: (client: Client) => Promise<T>,
    /** Lend's own tools, unless told otherwise. */
    at = { url: `${this.#issuer}/mcp?tool_names=underscore`, audience: '' },
  ): Promise<T> {
    const once = async (token: string): Promise<T> => {
      const client = new Client({ name: 'lend-agent-app', version: '1' })
      const url = new URL(at.url)
      const transport = new StreamableHTTPClientTransport(url, {
        requestInit: { headers: { authorization: `Bearer ${token}` } },
      })
      await client.connect(transport as Parameters<Client['connect']>[0])
      try {
        return await use(client)
      } finally {
        await client.close()
      }
    }
    try {
      return await once(await this.#issued(session, at.audience))
    } catch (error) {
      // A narrowing kills the token at once; the session may well live. Once: a dead session refuses the re-issue.
      if (!isUnauthorized(error)) throw error
      this.forget(session.sessionId)
      return once(await this.#issued(session, at.audience))
    }
  }

  /** Calls a service with a token of the session for that service alone. */
  async callService(
    session: Claimed,
    of: {
      readonly resource: string
      readonly path: string
      readonly method?: string
      readonly body?: unknown
    },
  ): Promise<{ status: number; body: unknown }> {
    const audience = `${this.#publicUrl}${of.resource}`
    const once = async () => {
      const response = await fetch(`${audience}${of.path}`, {
        method: of.method ?? 'GET',
        headers: {
          authorization: `Bearer ${await this.#issued(session, audience)}`,
          ...(of.body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(of.body === undefined ? {} : { body: JSON.stringify(of.body) }),
      })
      return { status: response.status, body: await response.json().catch(() => null) }
    }
    const first = await once()
    if (first.status !== 401) return first
    this.forget(session.sessionId)
    return once()
  }
}

const isUnauthorized = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && error.code === 401) || /\b401\b|unauthori[sz]ed/i.test(error.message))

function readJson(text: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return typeof value === 'object' && value !== null ? { ...value } : { result: value }
  } catch {
    return { error: text ?? 'no answer' }
  }
}
