import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cleanEnv, root, type Settings } from '../../system/support/server.ts'

const run = promisify(execFile)
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/** What `npx lend …` prints, run as its users do. */
export async function cli(settings: Settings, ...args: string[]): Promise<string> {
  const bin = join(root, 'bin', 'lend.js')
  const { stdout } = await run(process.execPath, [bin, ...args], {
    cwd: root,
    env: cleanEnv(settings),
  })
  return stdout.trim()
}

export type Got = { readonly status: number; readonly headers: Headers; readonly body: Body }
type Body = {
  readonly access_token?: string
  readonly refresh_token?: string
  readonly session_id?: string
  readonly authorization_details?: readonly { readonly permission: string }[]
  readonly digest?: string
  readonly items?: readonly { readonly id: string; readonly outcome: string }[]
  readonly error?: string
  readonly error_reason?: string
  readonly code?: string
}
export type Started = {
  readonly access_token: string
  readonly refresh_token: string
  readonly session_id: string
}
type Headers_ = Readonly<Record<string, string>>
type Asked = {
  readonly request_id?: string
  readonly items: readonly { readonly outcome: string; readonly reason: string }[]
}

/** An agent's app and its user as plain HTTP clients of a deployment; nothing is tried twice. */
export async function clientOf(url: string, settings: Settings) {
  const { agents } = JSON.parse(await cli(settings, 'demo-credentials')) as {
    agents: { client_id: string; client_secret: string; templates: string[] }[]
  }
  const agent = agents.find((one) => one.templates.includes('renewal-briefs'))
  if (agent === undefined) throw new Error('the demo has no agent for renewal-briefs')
  const { client_id, client_secret } = agent
  const [people, subject] = await Promise.all([
    cli(settings, 'demo-token', '--user', 'maya'),
    cli(settings, 'demo-token', '--user', 'maya', '--client', 'app'),
  ])
  const send = async (path: string, init: RequestInit): Promise<Got> => {
    const answer = await fetch(`${url}/t/acme${path}`, init)
    const text = await answer.text()
    const isJson = /json/.test(answer.headers.get('content-type') ?? '')
    return {
      status: answer.status,
      headers: answer.headers,
      body: isJson && text !== '' ? JSON.parse(text) : {},
    }
  }
  const form = (path: string, fields: Headers_, headers: Headers_ = {}) =>
    send(path, {
      method: 'POST',
      headers,
      body: new URLSearchParams({ client_id, client_secret, ...fields }),
    })
  const api = (method: string, path: string, body?: object, headers: Headers_ = {}) =>
    send(`/api${path}`, {
      method,
      headers: {
        ...headers,
        authorization: `Bearer ${people}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  /** One call of a tool in one request, without a handshake. */
  const tool = async (token: string, name: string, args: object, headers: Headers_ = {}) => {
    const answer = await fetch(`${url}/t/acme/mcp`, {
      method: 'POST',
      headers: {
        ...headers,
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name, arguments: args },
      }),
    })
    const text = await answer.text()
    if (answer.status !== 200) return { status: answer.status, text, result: undefined }
    const line = text.split('\n').findLast((one) => one.startsWith('data: '))
    const message = JSON.parse(line?.slice('data: '.length) ?? text)
    return { status: 200, text, result: message.result?.structuredContent as Asked | undefined }
  }
  return {
    send,
    api,
    tool,
    people,
    start: (headers?: Headers_) =>
      form(
        '/oauth/token',
        {
          grant_type: EXCHANGE,
          subject_token: subject,
          subject_token_type: ACCESS_TOKEN,
          template: 'renewal-briefs',
        },
        headers,
      ),
    /** The control token for one of a resource server's. */
    exchange: (control: string, resource: string) =>
      form('/oauth/token', {
        ...{ grant_type: EXCHANGE, subject_token_type: ACCESS_TOKEN, resource },
        subject_token: control,
      }),
    reissue: (refresh_token: string, headers?: Headers_) =>
      form('/oauth/token', { grant_type: 'refresh_token', refresh_token }, headers),
    revoke: (token: string, headers?: Headers_) => form('/oauth/revoke', { token }, headers),
    ask: (token: string, more: object = {}, headers?: Headers_) =>
      tool(
        token,
        'iam.request_access',
        { items: [{ permission: 'accounts:read' }], reason: 'to write the brief', ...more },
        headers,
      ),
    /** Allows once whatever a request still asks. */
    answer: async (requestId: string, headers?: Headers_): Promise<Got> => {
      const shown = await api('GET', `/access-requests/${requestId}`, undefined, headers)
      if (shown.status !== 200) return shown
      const items = (shown.body.items ?? [])
        .filter((one) => one.outcome === 'pending')
        .map(({ id }) => ({ id, decision: 'allow_once' }))
      const body = { digest: shown.body.digest, items }
      return api('POST', `/access-requests/${requestId}/decision`, body, headers)
    },
  }
}

export type Client = Awaited<ReturnType<typeof clientOf>>

/** What a start answered, or a failure. */
export function started(got: Got): Started {
  const { access_token, refresh_token, session_id } = got.body
  if (got.status !== 200 || !access_token || !refresh_token || !session_id)
    throw new Error(`start: ${got.status} ${JSON.stringify(got.body)}`)
  return { access_token, refresh_token, session_id }
}
