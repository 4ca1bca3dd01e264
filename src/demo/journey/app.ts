import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  type AuthorizationServer,
  allowInsecureRequests,
  ClientSecretBasic,
  discoveryRequest,
  genericTokenEndpointRequest,
  introspectionRequest,
  processDiscoveryResponse,
  processGenericTokenEndpointResponse,
  processIntrospectionResponse,
  ResponseBodyError,
} from 'oauth4webapi'
import { z } from 'zod'

/**
 * The agent's app as anybody would write it: a standard OAuth client and a standard MCP client,
 * nothing of Lend's own.
 */

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'
const HTTP = { [allowInsecureRequests]: true }

export type ClientCredentials = { readonly client_id: string; readonly client_secret: string }

const issued = z.looseObject({
  access_token: z.string(),
  expires_in: z.number(),
  session_id: z.string(),
  refresh_token: z.string().optional(),
  scope: z.string().optional(),
  authorization_details: z.array(
    z.looseObject({
      permission: z.string(),
      identifier: z.string().optional(),
      read_only: z.literal(true).optional(),
    }),
  ),
})
const textsOf = z.array(z.looseObject({ text: z.string().optional() }))
export type Issued = z.output<typeof issued>

export type App = {
  /** RFC 8693, start: the user's token and a template, or a session that the user has made. */
  readonly start: (of: {
    readonly userToken: string
    readonly template: string
    readonly task?: string
    readonly sessionId?: string
  }) => Promise<Session>
  /** RFC 7662, as an enforcement point. */
  readonly introspect: (token: string) => Promise<boolean>
}

/** One session as the app holds it: the tokens stay here, the model sees the tools. */
export type Session = {
  readonly id: string
  /** The control token as it was last issued. */
  readonly token: () => Issued
  readonly refresh: () => Promise<Issued>
  /** What the token endpoint says when it refuses a re-issue, or null. */
  readonly refused: () => Promise<string | null>
  readonly tokenFor: (resource: string) => Promise<string>
  readonly claimChild: (sessionId: string) => Promise<Session>
  readonly tool: <T>(
    name: string,
    args: Readonly<Record<string, unknown>>,
    shape: z.ZodType<T>,
  ) => Promise<T>
  /** A tool of a server behind the tool gateway: what is listed there, and what the call answers. */
  readonly gateway: (
    server: string,
    name: string,
    args: Readonly<Record<string, unknown>>,
  ) => Promise<{ readonly listed: readonly string[]; readonly said: unknown }>
  readonly close: () => Promise<void>
}

type Wiring = {
  readonly server: AuthorizationServer
  readonly agent: ClientCredentials
  readonly mcp: string
}

async function tokenRequest(
  { server, agent }: Wiring,
  grantType: string,
  parameters: Readonly<Record<string, string>>,
): Promise<Issued> {
  const client = { client_id: agent.client_id }
  const answer = await genericTokenEndpointRequest(
    server,
    client,
    ClientSecretBasic(agent.client_secret),
    grantType,
    new URLSearchParams(parameters),
    HTTP,
  )
  return issued.parse(await processGenericTokenEndpointResponse(server, client, answer))
}

/**
 * A client of the official library, one for each session. The token is the newest one at each call.
 */
async function mcpClient(mcp: string, token: () => string): Promise<Client> {
  const client = new Client({ name: 'journey', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(mcp), {
    fetch: (url, init) => {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${token()}`)
      return fetch(url, { ...init, headers })
    },
  })
  // The library's own types disagree with themselves about an absent session id under exact
  // optional properties.
  await client.connect(transport as Parameters<Client['connect']>[0])
  return client
}

function sessionOf(wiring: Wiring, first: Issued): Session {
  let current = first
  let connected: Promise<Client> | null = null
  const client = () => {
    connected ??= mcpClient(wiring.mcp, () => current.access_token)
    return connected
  }
  const reissue = () =>
    tokenRequest(wiring, 'refresh_token', { refresh_token: first.refresh_token ?? '' })
  return {
    id: first.session_id,
    token: () => current,
    refresh: async () => {
      current = await reissue()
      return current
    },
    refused: () =>
      reissue().then(
        () => null,
        (error: unknown) => {
          if (error instanceof ResponseBodyError) return error.error
          throw error
        },
      ),
    tokenFor: async (resource) => {
      const { access_token } = await tokenRequest(wiring, EXCHANGE, {
        subject_token: current.access_token,
        subject_token_type: ACCESS_TOKEN,
        resource,
      })
      return access_token
    },
    claimChild: async (sessionId) =>
      sessionOf(
        wiring,
        await tokenRequest(wiring, EXCHANGE, {
          subject_token: current.access_token,
          subject_token_type: ACCESS_TOKEN,
          session_id: sessionId,
        }),
      ),
    tool: async (name, args, shape) => {
      const result = await (await client()).callTool({ name, arguments: { ...args } })
      if (result.isError) throw new Error(`${name} failed: ${JSON.stringify(result.content)}`)
      return shape.parse(result.structuredContent)
    },
    gateway: async (server, name, args) => {
      const tools = await mcpClient(
        `${wiring.server.issuer}/tools/${server}/mcp`,
        () => current.access_token,
      )
      try {
        const { tools: listed } = await tools.listTools()
        const result = await tools.callTool({ name, arguments: { ...args } })
        const [first] = textsOf.parse(result.content)
        const said: unknown = JSON.parse(first?.text ?? '{}')
        return { listed: listed.map((tool) => tool.name), said }
      } finally {
        await tools.close()
      }
    },
    close: async () => {
      await (await connected)?.close()
    },
  }
}

/** Looks the tenant's issuer up (RFC 8414) and makes the app of one agent. */
export async function createApp(of: {
  readonly issuer: string
  readonly mcp: string
  readonly agent: ClientCredentials
  readonly enforcementPoint: ClientCredentials
}): Promise<App> {
  const issuer = new URL(of.issuer)
  const found = await discoveryRequest(issuer, { ...HTTP, algorithm: 'oauth2' })
  const server = await processDiscoveryResponse(issuer, found)
  const wiring = { server, agent: of.agent, mcp: of.mcp }
  return {
    start: async ({ userToken, template, task, sessionId }) =>
      sessionOf(
        wiring,
        await tokenRequest(wiring, EXCHANGE, {
          subject_token: userToken,
          subject_token_type: ACCESS_TOKEN,
          template,
          ...(task === undefined ? {} : { task }),
          ...(sessionId === undefined ? {} : { session_id: sessionId }),
        }),
      ),
    introspect: async (token) => {
      const client = { client_id: of.enforcementPoint.client_id }
      const auth = ClientSecretBasic(of.enforcementPoint.client_secret)
      const answer = await introspectionRequest(server, client, auth, token, HTTP)
      return (await processIntrospectionResponse(server, client, answer)).active
    },
  }
}
