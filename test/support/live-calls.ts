import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { decodeJwt, importJWK, SignJWT } from 'jose'
import type { TenantId } from '../../src/core/vocabulary.ts'
import type { SqlValue } from '../../src/db/tx.ts'
import { DEMO_CLIENTS, demoIssuerOf } from '../../src/demo/idp/provider.ts'
import { signInFully } from '../../src/demo/idp/sign-in.ts'
import { secretOf } from '../../src/demo/secrets.ts'
import { DEMO_SERVICES_POINT, DEMO_TENANTS } from '../../src/demo/world.ts'
import { issuerOf, mcpUrlOf } from '../../src/ports.ts'
import { runOn } from './databases.ts'
import type {
  Answer,
  Body,
  Credentials,
  DemoClient,
  Form,
  LiveServer,
  Mcp,
  TokenAnswer,
  ToolAnswer,
} from './live-server.ts'

/** What the helpers of `live-server.ts` do: sign people in, call each door, and decide as a person. */

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
export const RENEWALS = 'Renewal assistant'
export const DRAFTING = 'Drafting assistant'

/** The demo tenant of a login: each has exactly one. */
export function tenantOf(login: string): string {
  const found = DEMO_TENANTS.find((tenant) => tenant.users.some((user) => user.login === login))
  if (found === undefined) throw new Error(`the demo world has no ${login}`)
  return found.slug
}

const subjectOf = (login: string): string =>
  DEMO_TENANTS.flatMap((tenant) => tenant.users).find((user) => user.login === login)?.subject ?? ''

function formOf(form: Form): URLSearchParams {
  const sent = new URLSearchParams()
  for (const [name, value] of Object.entries(form))
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) sent.append(name, one)
  return sent
}

export const basic = ({ client_id, client_secret }: Credentials): string =>
  `Basic ${Buffer.from(`${encodeURIComponent(client_id)}:${encodeURIComponent(client_secret)}`).toString('base64')}`

/** Answers that need a body are read whole; an event stream is not for these helpers. */
async function answerOf<T>(response: Response): Promise<Answer<T>> {
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (isJson && text !== '' ? JSON.parse(text) : {}) as T,
  }
}

export async function connectMcp(url: string, accessToken: string): Promise<Mcp> {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${accessToken}` } },
  })
  // Its declared types predate exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client['connect']>[0])
  const raw = async (name: string, args: object = {}) =>
    (await client.callTool({ name, arguments: { ...args } })) as ToolAnswer
  return {
    client,
    raw,
    call: async <T>(name: string, args: object = {}) => {
      const answer = await raw(name, args)
      if (answer.isError) throw new Error(`${name}: ${answer.content[0]?.text}`)
      return answer.structuredContent as T
    },
    close: () => client.close(),
  }
}

const bodyOrThrow = <T>(what: string, answer: Answer<T>): T => {
  if (answer.status !== 200) throw new Error(`${what}: ${answer.status} ${answer.text}`)
  return answer.body
}

export type Running = Pick<
  LiveServer,
  'origin' | 'publicUrl' | 'ctx' | 'app' | 'secrets' | 'bugs' | 'clock'
>

/** Ids and secrets of the seeded world. */
export function knowing(run: Running) {
  const rows = <T = Body>(sql: string, params: readonly SqlValue[] = []) =>
    runOn(run.ctx.db)<T>(sql, params)
  const oneId = async (what: string, sql: string, params: readonly SqlValue[]) => {
    const [row] = await rows<{ id: string }>(sql, params)
    if (row === undefined) throw new Error(`the demo world has no ${what}`)
    return row.id
  }
  const tenantId = (tenant = 'acme') =>
    oneId(tenant, 'select id from tenant where slug = $1', [tenant]) as Promise<TenantId>
  const clientOf = async (
    kind: 'agents' | 'enforcementPoints',
    name: string,
    tenant: string,
  ): Promise<Credentials> => {
    const table = kind === 'agents' ? 'agent' : 'enforcement_point'
    const id = await oneId(name, `select id from ${table} where tenant_id = $1 and name = $2`, [
      await tenantId(tenant),
      name,
    ])
    return { client_id: id, client_secret: secretOf(run.secrets, { kind, tenant, name }) }
  }
  return {
    rows,
    tenantId,
    issuer: (tenant = 'acme') => issuerOf(run.ctx, tenant),
    mcpUrl: (tenant = 'acme') => mcpUrlOf(run.ctx, tenant),
    resource: (name: string) => `${run.publicUrl}/demo/${name}`,
    userId: async (login: string) =>
      oneId(login, 'select id from app_user where tenant_id = $1 and login = $2', [
        await tenantId(tenantOf(login)),
        login,
      ]),
    agent: (name = RENEWALS, tenant = 'acme') => clientOf('agents', name, tenant),
    enforcementPoint: (name = DEMO_SERVICES_POINT, tenant = 'acme') =>
      clientOf('enforcementPoints', name, tenant),
  }
}

export function signingIn(run: Running) {
  const signedIn = new Map<string, ReturnType<typeof signInFully>>()
  const signIn = (login: string, client: DemoClient, tenant: string) => {
    const key = `${tenant} ${login} ${client}`
    const secrets = run.secrets.idp.clientSecrets[tenant]
    if (secrets === undefined) throw new Error(`the demo has no provider for ${tenant}`)
    const of = { publicUrl: run.publicUrl, tenant, login, client, clientSecret: secrets[client] }
    const already = signedIn.get(key) ?? signInFully(of)
    signedIn.set(key, already)
    return already
  }
  const mint: LiveServer['mintUserToken'] = async (
    login,
    claims = {},
    tenant = tenantOf(login),
  ) => {
    const [jwk] = run.secrets.idp.keys[tenant] ?? []
    if (jwk === undefined) throw new Error(`the demo has no provider for ${tenant}`)
    const now = Math.floor(run.clock.now() / 1000)
    const payload = {
      iss: demoIssuerOf(run.publicUrl, tenant),
      aud: issuerOf(run.ctx, tenant),
      sub: subjectOf(login),
      client_id: DEMO_CLIENTS.app,
      iat: now,
      exp: now + 600,
      ...claims,
    }
    return new SignJWT(JSON.parse(JSON.stringify(payload)))
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: jwk.kid ?? '' })
      .sign(await importJWK(jwk, 'ES256'))
  }
  return {
    userToken: async (login: string, client: DemoClient = 'people', tenant = tenantOf(login)) => {
      const { accessToken } = await signIn(login, client, tenant)
      const { exp = 0 } = decodeJwt(accessToken)
      if (run.clock.now() < exp * 1000) return accessToken
      // A test has moved the clock past it, and the provider lives by real time.
      return mint(login, { client_id: DEMO_CLIENTS[client] }, tenant)
    },
    idToken: async (login: string, client: DemoClient = 'people', tenant = tenantOf(login)) =>
      (await signIn(login, client, tenant)).idToken,
    mintUserToken: mint,
  }
}

export function calling(
  run: Running,
  known: ReturnType<typeof knowing>,
  user: ReturnType<typeof signingIn>,
) {
  const request: LiveServer['request'] = async (path, init) =>
    answerOf(await fetch(path.startsWith('http') ? path : `${run.origin}${path}`, init))
  const oauth: LiveServer['oauth'] = (endpoint, form, credentials, tenant = 'acme') =>
    request(`/t/${tenant}/oauth/${endpoint}`, {
      method: 'POST',
      headers: credentials === null ? {} : { authorization: basic(credentials) },
      body: formOf(form),
    })
  const token: LiveServer['token'] = (form, credentials, tenant) =>
    oauth('token', form, credentials, tenant)
  const api: LiveServer['api'] = (bearer, method, path, body, more = {}) =>
    request(`/t/${more.tenant ?? 'acme'}/api${path}`, {
      method,
      headers: {
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...more.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const start: LiveServer['start'] = async (login, how = {}) => {
    const tenant = tenantOf(login)
    const form = {
      grant_type: TOKEN_EXCHANGE,
      subject_token: await user.userToken(login, 'app'),
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
      ...how.form,
    }
    const answer = await token<TokenAnswer>(form, await known.agent(how.agent, tenant), tenant)
    return bodyOrThrow(`start for ${login}`, answer)
  }
  const reissue: LiveServer['reissue'] = async (refreshToken, how = {}) => {
    const form = {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      resource: how.resource,
    }
    const credentials = await known.agent(how.agent, how.tenant)
    return bodyOrThrow('re-issue', await token<TokenAnswer>(form, credentials, how.tenant))
  }
  return { request, oauth, token, api, start, reissue }
}

type Calls = ReturnType<typeof calling>
type Shown = { digest: string; items: { id: string; outcome: string }[] }

/** What takes a person: their answers, an admin's freeze, an end. */
export function deciding(
  user: ReturnType<typeof signingIn>,
  calls: Calls,
  mcpOf: LiveServer['mcp'],
) {
  const api = async <T>(login: string, method: string, path: string, body?: unknown) => {
    const more = { tenant: tenantOf(login) }
    const answer = await calls.api<T>(await user.userToken(login), method, path, body, more)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const ask: LiveServer['ask'] = async (accessToken, items, tenant) => {
    const mcp = await mcpOf(accessToken, tenant)
    try {
      return await mcp.call('iam.request_access', { items, reason: 'to write the brief' })
    } finally {
      await mcp.close()
    }
  }
  const answer: LiveServer['answer'] = async (login, requestId, decision = 'allow_once') => {
    const shown = await api<Shown>(login, 'GET', `/access-requests/${requestId}`)
    const items = shown.items
      .filter((item) => item.outcome === 'pending')
      .map(({ id }) => ({ id, decision }))
    const body = { digest: shown.digest, items }
    await api(login, 'POST', `/access-requests/${requestId}/decision`, body)
  }
  const lend: LiveServer['lend'] = async (login, accessToken, items) => {
    const tenant = tenantOf(login)
    const asked = await ask(accessToken, items, tenant)
    if (asked.request_id !== undefined) await answer(login, asked.request_id)
    const now = await ask(accessToken, items, tenant)
    const missing = now.items.filter((item) => item.outcome !== 'granted')
    if (missing.length > 0) throw new Error(`not granted: ${JSON.stringify(missing)}`)
  }
  return {
    ask,
    answer,
    lend,
    freeze: async (scope: string, id: string) => {
      const made = await api<{ id: string }>('adam', 'POST', '/freezes', { scope, id })
      return async () => void (await api('adam', 'DELETE', `/freezes/${made.id}`))
    },
    endSessions: async (login: string) => {
      type Listed = { items: { id: string; parent_id?: string }[] }
      const { items } = await api<Listed>(login, 'GET', '/sessions?status=active')
      for (const { id, parent_id } of items)
        if (parent_id === undefined) await api(login, 'POST', `/sessions/${id}/end`)
    },
  }
}
