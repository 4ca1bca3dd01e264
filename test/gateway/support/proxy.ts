import { type IncomingHttpHeaders, request } from 'node:http'
import type { AuthDecision, ProxyFamily } from '../../../schema/auth-decision.ts'
import { secretOf } from '../../../src/demo/secrets.ts'
import type { LiveServer } from '../../support/live-server.ts'

export type Asking = {
  readonly tenant?: string
  readonly family?: ProxyFamily
  readonly method?: string
  readonly target?: string
  readonly token?: string | null
  /** Null: none is sent. */
  readonly secret?: string | null
  /** Names and values, one after the other, as they go over the wire. */
  readonly raw?: readonly string[]
  /** Instead of the address that the family has. */
  readonly address?: string
}

export type Answer = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const HEADERS: Readonly<Record<Exclude<ProxyFamily, 'envoy'>, readonly [string, string]>> = {
  nginx: ['X-Original-Method', 'X-Original-URI'],
  traefik: ['X-Forwarded-Method', 'X-Forwarded-Uri'],
  caddy: ['X-Forwarded-Method', 'X-Forwarded-Uri'],
}

export const demoSecret = (lend: Pick<LiveServer, 'secrets'>, tenant = 'acme'): string =>
  secretOf(lend.secrets, { kind: 'proxies', tenant, name: 'Demo gateway' })

/** Asks forward-auth as one of the proxies does, on the wire: a `fetch` would tidy up what is to be tested. */
export function ask(
  lend: Pick<LiveServer, 'origin' | 'secrets'>,
  of: Asking = {},
): Promise<Answer> {
  const { tenant = 'acme', family = 'nginx', method = 'GET', raw = [] } = of
  const target = of.target ?? '/demo/accounts/accounts'
  const secret = of.secret === undefined ? demoSecret(lend, tenant) : of.secret
  const own = `/t/${tenant}/forward-auth/${family}`
  const names = family === 'envoy' ? null : HEADERS[family]
  const headers = [
    ...['Host', 'gateway.example'],
    ...(secret === null ? [] : ['X-Lend-Proxy-Secret', secret]),
    ...(of.token ? ['Authorization', `Bearer ${of.token}`] : []),
    ...(names === null ? [] : [names[0], method, names[1], target]),
    ...raw,
  ]
  const url = new URL(lend.origin)
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        ...{ host: url.hostname, port: url.port, headers },
        method: family === 'envoy' ? method : 'GET',
        path: of.address ?? (family === 'envoy' ? own + target : own),
      },
      (res) => {
        let body = ''
        res.setEncoding('utf8')
        res.on('data', (chunk: string) => {
          body += chunk
        })
        res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body }))
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}

export const reasonOf = (answer: Answer): string =>
  answer.status === 200 ? 'allowed' : String(answer.headers['x-auth-error-code'])

/** The AUTH_DECISION lines of one request id. */
export async function linesOf(
  lend: Pick<LiveServer, 'gateway' | 'lines'>,
  requestId: unknown,
): Promise<AuthDecision[]> {
  await lend.gateway.flush()
  return lend.lines
    .map((line) => JSON.parse(line) as AuthDecision)
    .filter((line) => line.request_id === requestId)
}

/** The session's token for one of the demo's services. */
export async function tokenFor(
  lend: LiveServer,
  control: string,
  service = 'accounts',
): Promise<string> {
  const answer = await lend.token(
    {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: control,
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      resource: lend.resource(service),
    },
    await lend.agent(),
  )
  if (answer.status !== 200) throw new Error(`exchange: ${answer.text}`)
  return answer.body.access_token
}

/** A session of maya's that holds `accounts:read`, with its tokens. */
export async function lentSession(lend: LiveServer, service = 'accounts') {
  const started = await lend.start('maya')
  await lend.lend('maya', started.access_token, [{ permission: 'accounts:read' }])
  const { access_token: control } = await lend.reissue(started.refresh_token)
  return { started, control, token: await tokenFor(lend, control, service) }
}
