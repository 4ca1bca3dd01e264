import { createRemoteJWKSet, decodeProtectedHeader, type JWTPayload, jwtVerify } from 'jose'
import {
  type AuthorizationServer,
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  discoveryRequest,
  genericTokenEndpointRequest,
  introspectionRequest,
  processDiscoveryResponse,
  processGenericTokenEndpointResponse,
  processIntrospectionResponse,
  processRefreshTokenResponse,
  processRevocationResponse,
  refreshTokenGrantRequest,
  revocationRequest,
  validateJwtAccessToken,
} from 'oauth4webapi'
import { expect } from 'vitest'
import type { SessionClaims } from '../../src/core/claims.ts'
import { ACCESS_TOKEN, type Answer, type LiveServer, TOKEN_EXCHANGE } from './live-server.ts'

/** An outside OAuth client that knows only the issuer: what it needs it discovers, and what it gets it checks. */
export type Outsider = {
  readonly server: AuthorizationServer
  readonly exchange: (parameters: Record<string, string>) => Promise<Issued>
  readonly refresh: (refreshToken: string, parameters?: Record<string, string>) => Promise<Issued>
  readonly introspect: (token: string) => Promise<Record<string, unknown>>
  readonly revoke: (token: string) => Promise<void>
}

type Issued = {
  readonly access_token: string
  readonly token_type: string
  readonly expires_in?: number
  readonly refresh_token?: string
  readonly scope?: string
  readonly [parameter: string]: unknown
}

const http = { [allowInsecureRequests]: true }

export async function outsider(
  lend: LiveServer,
  clientId: string,
  how: { readonly secret?: string; readonly auth?: ClientAuth; readonly tenant?: string } = {},
): Promise<Outsider> {
  const issuer = new URL(lend.issuer(how.tenant))
  const found = await discoveryRequest(issuer, { ...http, algorithm: 'oauth2' })
  const server = await processDiscoveryResponse(issuer, found)
  const client = { client_id: clientId }
  const auth = how.auth ?? ClientSecretBasic(how.secret ?? '')
  return {
    server,
    exchange: async (parameters) =>
      processGenericTokenEndpointResponse(
        server,
        client,
        await genericTokenEndpointRequest(
          server,
          client,
          auth,
          TOKEN_EXCHANGE,
          new URLSearchParams({ subject_token_type: ACCESS_TOKEN, ...parameters }),
          http,
        ),
      ),
    refresh: async (refreshToken, parameters = {}) =>
      processRefreshTokenResponse(
        server,
        client,
        await refreshTokenGrantRequest(server, client, auth, refreshToken, {
          ...http,
          additionalParameters: parameters,
        }),
      ),
    introspect: async (token) =>
      processIntrospectionResponse(
        server,
        client,
        await introspectionRequest(server, client, auth, token, http),
      ),
    revoke: async (token) =>
      processRevocationResponse(await revocationRequest(server, client, auth, token, http)),
  }
}

/**
 * The claims of a token, verified as a resource server that knows only the issuer would: signature by the served JWKS,
 * and RFC 9068 by oauth4webapi.
 */
export async function verified(
  lend: LiveServer,
  token: string,
  audience: string,
  tenant = 'acme',
): Promise<SessionClaims> {
  const issuer = lend.issuer(tenant)
  const keys = createRemoteJWKSet(new URL(`${issuer}/oauth/jwks`))
  const { payload } = await jwtVerify(token, keys, {
    issuer,
    audience,
    typ: 'at+jwt',
    algorithms: ['ES256', 'RS256'],
    currentDate: new Date(lend.clock.now()),
  })
  if (Math.abs(lend.clock.now() - Date.now()) < 1000) {
    const request = new Request(audience, { headers: { authorization: `Bearer ${token}` } })
    const server = { issuer, jwks_uri: `${issuer}/oauth/jwks` }
    await validateJwtAccessToken(server, request, audience, http)
  }
  expect(decodeProtectedHeader(token)).toStrictEqual({
    alg: 'ES256',
    typ: 'at+jwt',
    kid: expect.any(String),
  })
  return payload as JWTPayload & SessionClaims
}

type Refusal = {
  readonly status?: number
  readonly error: string
  readonly reason: string
  /** What its sentence must say, to name the parameter at fault. */
  readonly says?: string | RegExp
}

/** SPEC section 6: every refusal says what, why and why in a word, and is never stored. */
export function expectRefused(answer: Answer<unknown>, of: Refusal): void {
  expect(answer.body, answer.text).toMatchObject({
    error: of.error,
    error_reason: of.reason,
    error_description: expect.stringMatching(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/),
  })
  expect(answer.status).toBe(of.status ?? 400)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
  expect(answer.headers.get('x-request-id')).toMatch(/./)
  expect(answer.body).not.toHaveProperty('access_token')
  if (of.says !== undefined)
    expect((answer.body as { error_description: string }).error_description).toMatch(of.says)
}

export type Written = {
  readonly sessions: number
  readonly records: number
  readonly users: number
}

/** How much there is, to show that a refusal wrote nothing. */
export async function written(lend: LiveServer): Promise<Written> {
  const [row] = await lend.rows<Written>(`
    select (select count(*)::integer from session) as sessions,
      (select count(*)::integer from activity) as records,
      (select count(*)::integer from app_user) as users`)
  if (row === undefined) throw new Error('a count has one row')
  return row
}
