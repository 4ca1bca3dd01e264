import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import { until } from '../../mcp/support/until.ts'
import type { Settings } from '../../system/support/server.ts'
import { cli } from './client.ts'

/** Whoever holds a secret of Lend's, as plain HTTP clients of a deployment that ask without a pause. Nothing is tried twice. */
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const OVERLAP_SECONDS = 3600

type Headers_ = Readonly<Record<string, string>>
type Got = { readonly status: number; readonly body: Record<string, unknown> }
export type Who = 'agent' | 'point' | 'proxy' | 'service'
type Client = { readonly client_id: string; readonly client_secret: string }
type Credentials = {
  readonly agents: readonly (Client & { readonly templates: readonly string[] })[]
  readonly enforcement_points: readonly Client[]
  readonly proxies: readonly { readonly name: string; readonly secret: string }[]
  readonly services?: readonly (Client & { readonly service: string })[]
}

async function send(url: string, init: RequestInit = {}): Promise<Got> {
  const answer = await fetch(url, init)
  const text = await answer.text()
  const isJson = /json/.test(answer.headers.get('content-type') ?? '')
  return { status: answer.status, body: isJson && text !== '' ? JSON.parse(text) : {} }
}

const first = <T>(all: readonly T[] | undefined, fits: (one: T) => boolean = () => true): T => {
  const found = all?.find(fits)
  if (found === undefined) throw new Error('the demo lacks a client that these tests need')
  return found
}

async function credentialsOf(settings: Settings) {
  const read = async (tenant: string): Promise<Credentials> =>
    JSON.parse(await cli(settings, 'demo-credentials', '--tenant', tenant))
  const [acme, studio] = [await read('acme'), await read('studio')]
  return {
    agent: first(acme.agents, ({ templates }) => templates.includes('renewal-briefs')),
    point: first(acme.enforcement_points),
    proxy: first(acme.proxies, ({ name }) => name === 'Demo gateway'),
    service: first(studio.services, ({ service }) => service === 'accounts'),
  }
}

export async function holdersOf(url: string, settings: Settings) {
  const { agent, point, proxy, service } = await credentialsOf(settings)
  const token = (...args: string[]) => cli(settings, 'demo-token', ...args)
  const subject = await token('--user', 'maya', '--client', 'app')
  const staff = {
    acme: await token('--user', 'adam'),
    studio: await token('--user', 'ines', '--tenant', 'studio'),
  }
  const compliance = await token('--user', 'cleo')
  const now: Record<Who, string> = {
    agent: agent.client_secret,
    point: point.client_secret,
    proxy: proxy.secret,
    service: service.client_secret,
  }

  const form = (path: string, fields: Headers_, headers: Headers_ = {}, at = url) =>
    send(`${at}/t/acme/oauth/${path}`, {
      method: 'POST',
      headers,
      body: new URLSearchParams(fields),
    })
  const asAgent = (fields: Headers_, headers?: Headers_, secret = now.agent, at?: string) =>
    form(
      'token',
      { client_id: agent.client_id, client_secret: secret, ...fields },
      headers ?? {},
      at,
    )
  const api = (tenant: 'acme' | 'studio', method: string, path: string, body?: object) =>
    send(`${url}/t/${tenant}/api${path}`, {
      method,
      headers: {
        authorization: `Bearer ${staff[tenant]}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const START = {
    ...{ grant_type: EXCHANGE, subject_token_type: ACCESS_TOKEN, subject_token: subject },
    template: 'renewal-briefs',
  }
  const text = (got: Got, member: string): string => {
    const found = got.body[member]
    if (typeof found !== 'string') throw new Error(`no ${member}: ${JSON.stringify(got)}`)
    return found
  }
  const begun = await asAgent(START)
  const refresh = text(begun, 'refresh_token')
  /** For the accounts service. Fresh each time, so that new keys are met wherever a token is shown. */
  const accountsToken = async () => {
    const resource = `${url}/demo/accounts`
    return text(
      await asAgent({ grant_type: 'refresh_token', refresh_token: refresh, resource }),
      'access_token',
    )
  }
  const point_ = { id: point.client_id }
  const proxies = await api('acme', 'GET', '/admin/proxies')
  const listed = proxies.body.items as readonly { id: string; name: string }[]
  const paths: Record<Who, readonly ['acme' | 'studio', string]> = {
    agent: ['acme', `/admin/agents/${agent.client_id}`],
    point: ['acme', `/admin/enforcement-points/${point_.id}`],
    proxy: ['acme', `/admin/proxies/${first(listed, ({ name }) => name === proxy.name).id}`],
    service: ['studio', '/admin/services/accounts'],
  }

  const asks: Record<Who, (secret: string, headers: Headers_) => Promise<Got>> = {
    agent: (secret, headers) =>
      asAgent({ grant_type: 'refresh_token', refresh_token: refresh }, headers, secret),
    point: async (secret, headers) => {
      const got = await form(
        'introspect',
        { client_id: point.client_id, client_secret: secret, token: await accountsToken() },
        headers,
      )
      return got.status === 200 && got.body.active !== true ? { ...got, status: 0 } : got
    },
    // Nothing is granted, so who comes through is told so: 403 from a proxy that is known, and 401 from one that is not.
    proxy: async (secret, headers) => {
      const answer = await fetch(`${url}/t/acme/forward-auth/nginx`, {
        headers: {
          ...headers,
          authorization: `Bearer ${await accountsToken()}`,
          'x-lend-proxy-secret': secret,
          'x-original-method': 'GET',
          'x-original-uri': '/demo/accounts/accounts',
        },
      })
      await answer.arrayBuffer()
      const why = answer.headers.get('x-auth-error-code')
      return {
        status: why === 'PERMISSION_MISSING' ? 200 : answer.status,
        body: { why },
      }
    },
    service: (secret, headers) =>
      send(`${url}/t/studio/api/catalog/services/accounts/diff`, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/json',
          authorization: `Basic ${Buffer.from(`${service.client_id}:${secret}`).toString('base64')}`,
        },
        body: JSON.stringify({ permissions: [], endpoints: [] }),
      }),
  }
  return {
    now,
    asks,
    /** A whole life, so that sessions are begun and ended under each key. */
    life: async () => {
      const started = await asAgent(START)
      if (started.status !== 200) return started
      const of = { client_id: agent.client_id, client_secret: now.agent }
      return form('revoke', { ...of, token: text(started, 'refresh_token') })
    },
    verify: async () => {
      const got = await send(`${url}/t/acme/api/activity/verify`, {
        headers: { authorization: `Bearer ${compliance}` },
      })
      return got.body.ok === true ? got : { ...got, status: 0 }
    },
    try: async (who: Who, secret: string, headers: Headers_) =>
      (await asks[who](secret, headers)).status,
    rotate: async (who: Who): Promise<string> => {
      const [tenant, path] = paths[who]
      const change = { rotate_secret: { overlap_seconds: OVERLAP_SECONDS } }
      const got = await api(tenant, 'PATCH', path, change)
      expect([got.status, got.body]).toMatchObject([
        200,
        { previous_secret_until: expect.any(String) },
      ])
      return text(got, who === 'proxy' ? 'secret' : 'client_secret')
    },
    kids: async () => {
      const { body } = await send(`${url}/t/acme/oauth/jwks`)
      return (body.keys as { kid: string }[]).map(({ kid }) => kid)
    },
    startAt: (at: string) => asAgent(START, {}, now.agent, at),
  }
}
export type Holders = Awaited<ReturnType<typeof holdersOf>>

export type Load = {
  /** What was not as it should be, in words. */
  readonly wrong: readonly string[]
  /** Resolves when each loop has gone round so many times more. */
  readonly rounds: (more: number) => Promise<void>
  readonly stop: () => Promise<void>
}

export function startLoad(holders: Holders): Load {
  const wrong: string[] = []
  let over = false
  const { asks, now } = holders
  const loops: Readonly<Record<string, () => Promise<Got>>> = {
    agent: () => asks.agent(now.agent, {}),
    point: () => asks.point(now.point, {}),
    proxy: () => asks.proxy(now.proxy, {}),
    service: () => asks.service(now.service, {}),
    life: holders.life,
    verify: holders.verify,
  }
  const done = new Map(Object.keys(loops).map((name) => [name, 0]))
  const running = Object.entries(loops).map(async ([name, ask]) => {
    while (!over) {
      const got = await ask().catch((error: unknown) => ({
        status: -1,
        body: { error: `${error}` },
      }))
      if (got.status !== 200) wrong.push(`${name}: ${JSON.stringify(got)}`)
      done.set(name, (done.get(name) ?? 0) + 1)
      await pause(10)
    }
  })
  return {
    wrong,
    rounds: async (more) => {
      const goal = new Map([...done].map(([name, n]) => [name, n + more]))
      const goneRound = () => [...goal].every(([name, n]) => (done.get(name) ?? 0) >= n)
      await until(async () => goneRound(), 'each loop has gone round', 60)
    },
    stop: async () => {
      over = true
      await Promise.all(running)
    },
  }
}
