import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { basic, connectMcp, TOKEN_EXCHANGE } from '../../support/live-calls.ts'
import { cleanEnv, root, type Settings } from './server.ts'

/** Somebody who uses a running demo server from outside, with what its command line prints. */

export type Ran = { readonly code: number; readonly out: string; readonly err: string }

/** Runs the command line as its users do; the exit status is part of the answer. */
export const lend = (settings: Settings, ...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    const bin = join(root, 'bin', 'lend.js')
    const options = { cwd: root, env: cleanEnv(settings) }
    execFile(process.execPath, [bin, ...args], options, (error, out, err) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, out, err }),
    )
  })

type Client = { client_id: string; client_secret: string; templates?: string[] }
type Credentials = {
  issuer: string
  mcp: string
  agents: Client[]
  enforcement_points: Client[]
  proxies: { secret: string; mounts: unknown[] }[]
}
export type Item = { readonly permission: string; readonly resource?: string }
type Asked = {
  request_id?: string
  items: { permission: string; outcome: string; reason: string }[]
}
type Shown = { digest: string; items: { id: string; outcome: string }[] }

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

async function printed(settings: Settings, ...args: string[]): Promise<string> {
  const { code, out, err } = await lend(settings, ...args)
  if (code !== 0) throw new Error(`lend ${args.join(' ')}: ${err}`)
  return out.trim()
}

export async function visit(settings: Settings) {
  const known: Credentials = JSON.parse(await printed(settings, 'demo-credentials'))
  const agent = known.agents.find(({ templates }) => templates?.includes('renewal-briefs'))
  const [point] = known.enforcement_points
  const [proxy] = known.proxies
  if (agent === undefined || point === undefined || proxy === undefined)
    throw new Error('the demo has an agent, an enforcement point and a proxy')
  const { issuer } = known
  const origin = new URL(issuer).origin
  const maya = await printed(settings, 'demo-token', '--user', 'maya')

  const token = async (form: Record<string, string>) => {
    const answer = await fetch(`${issuer}/oauth/token`, {
      method: 'POST',
      headers: { authorization: basic(agent) },
      body: new URLSearchParams(form),
    })
    const body = (await answer.json()) as Record<string, string>
    return { status: answer.status, body, token: body.access_token ?? '' }
  }
  const api = async <T>(method: string, path: string, body?: object) => {
    const answer = await fetch(`${issuer}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${maya}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, body: (text === '' ? {} : JSON.parse(text)) as T }
  }
  const reissue = (refreshToken: string) =>
    token({ grant_type: 'refresh_token', refresh_token: refreshToken })
  return {
    issuer,
    point,
    token,
    api,
    reissue,
    start: async () => {
      const subject = await printed(settings, 'demo-token', '--user', 'maya', '--client', 'app')
      const { body } = await token({
        grant_type: TOKEN_EXCHANGE,
        subject_token: subject,
        subject_token_type: ACCESS_TOKEN,
        template: 'renewal-briefs',
      })
      const { access_token = '', refresh_token = '', session_id = '' } = body
      return { control: access_token, refresh: refresh_token, session: session_id }
    },
    ask: async (control: string, items: readonly Item[]): Promise<Asked> => {
      const mcp = await connectMcp(known.mcp, control)
      try {
        return await mcp.call<Asked>('iam.request_access', { items, reason: 'for the briefs' })
      } finally {
        await mcp.close()
      }
    },
    answer: async (requestId: string | undefined, decision: string): Promise<void> => {
      const { body } = await api<Shown>('GET', `/access-requests/${requestId}`)
      const items = body.items.filter((item) => item.outcome === 'pending')
      const decided = items.map(({ id }) => ({ id, decision }))
      const path = `/access-requests/${requestId}/decision`
      await api('POST', path, { digest: body.digest, items: decided })
    },
    /** A token for the demo's accounts. */
    accounts: async (control: string) =>
      (
        await token({
          grant_type: TOKEN_EXCHANGE,
          subject_token: control,
          subject_token_type: ACCESS_TOKEN,
          resource: `${origin}/demo/accounts`,
        })
      ).token,
    /** What a reverse proxy is told of a call of the accounts. */
    atTheProxy: async (bearer: string): Promise<string> => {
      const answer = await fetch(`${issuer}/forward-auth/nginx`, {
        headers: {
          authorization: `Bearer ${bearer}`,
          'x-lend-proxy-secret': proxy.secret,
          'x-original-method': 'GET',
          'x-original-uri': '/demo/accounts/accounts',
        },
      })
      return answer.status === 200 ? 'allowed' : String(answer.headers.get('x-auth-error-code'))
    },
    /** Sends a mail through the tool gateway, which opens the mail server's credential for it. */
    mail: async (control: string): Promise<boolean> => {
      const mcp = await connectMcp(`${issuer}/tools/mail/mcp`, control)
      try {
        const args = { to: ['jo@customer.example'], subject: 'Renewal', body: 'Dear Jo' }
        return (await mcp.raw('send_email', args)).isError !== true
      } finally {
        await mcp.close()
      }
    },
    mcpStatus: async (control: string): Promise<number> =>
      (
        await fetch(known.mcp, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${control}`,
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
        })
      ).status,
    jwks: async (): Promise<unknown> => (await fetch(`${issuer}/oauth/jwks`)).json(),
    feed: async (after: string | null) => {
      const query = after === null ? '' : `?after=${after}`
      const answer = await fetch(`${issuer}/enforce/revocations${query}`, {
        headers: { authorization: basic(point) },
      })
      return (await answer.json()) as { cursor: string; reset: boolean; good_after?: number }
    },
  }
}

export type Visitor = Awaited<ReturnType<typeof visit>>
