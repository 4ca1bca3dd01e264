import * as oauth from 'oauth4webapi'
import { guardedFetch } from './fetch-guard.ts'

/** The authorization code flow with PKCE against one provider (RFC 6749 section 4.1, RFC 7636, RFC 9207, OpenID Connect). */
export type CodeFlowProvider = {
  readonly issuer: string
  readonly privateNetwork: boolean
  readonly clientId: string
  readonly clientSecret: string
}

const FETCH_MILLIS_MAX = 5_000
const FETCH_BYTES_MAX = 512 * 1024

function settings(provider: CodeFlowProvider) {
  const fetch = guardedFetch({
    allowPrivate: provider.privateNetwork,
    timeoutMillis: FETCH_MILLIS_MAX,
    maxBytes: FETCH_BYTES_MAX,
  })
  return {
    [oauth.customFetch]: fetch,
    // Only where the provider's row allows private addresses, which is where plain http can be.
    [oauth.allowInsecureRequests]: provider.privateNetwork,
  }
}

async function discovered(provider: CodeFlowProvider): Promise<oauth.AuthorizationServer> {
  const issuer = new URL(provider.issuer)
  const response = await oauth.discoveryRequest(issuer, settings(provider))
  return oauth.processDiscoveryResponse(issuer, response)
}

export type Begun = {
  readonly url: string
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

/** Where to send the browser, and what must be remembered of it. Throws when the provider cannot be reached. */
export async function beginSignIn(provider: CodeFlowProvider, redirectUri: string): Promise<Begun> {
  const as = await discovered(provider)
  if (as.authorization_endpoint === undefined)
    throw new Error('the provider has no authorization endpoint')
  const [state, nonce, codeVerifier] = [
    oauth.generateRandomState(),
    oauth.generateRandomNonce(),
    oauth.generateRandomCodeVerifier(),
  ]
  const url = new URL(as.authorization_endpoint)
  const parameters = {
    client_id: provider.clientId,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid profile email',
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  return { url: url.href, state, nonce, codeVerifier }
}

export type Finished = {
  readonly subject: string
  readonly idToken: string
  readonly accessToken: string
  /** Seconds; absent when the provider does not say. */
  readonly accessTokenLifeSeconds?: number
  readonly profile: { readonly login?: string; readonly name?: string; readonly email?: string }
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/**
 * Exchanges the code that came back. Checks `state`, `iss`, the ID token's signature, audience, nonce and times. Throws
 * on anything else than one honest answer.
 */
export async function finishSignIn(
  provider: CodeFlowProvider,
  of: {
    readonly callback: URL
    readonly redirectUri: string
    readonly state: string
    readonly nonce: string
    readonly codeVerifier: string
  },
): Promise<Finished> {
  const as = await discovered(provider)
  const client: oauth.Client = { client_id: provider.clientId }
  const parameters = oauth.validateAuthResponse(as, client, of.callback, of.state)
  const response = await oauth.authorizationCodeGrantRequest(
    as,
    client,
    oauth.ClientSecretBasic(provider.clientSecret),
    parameters,
    of.redirectUri,
    of.codeVerifier,
    settings(provider),
  )
  const result = await oauth.processAuthorizationCodeResponse(as, client, response, {
    expectedNonce: of.nonce,
    requireIdToken: true,
  })
  await oauth.validateApplicationLevelSignature(as, response, settings(provider))
  const claims = oauth.getValidatedIdTokenClaims(result)
  if (claims === undefined || result.id_token === undefined) throw new Error('no ID token')
  const [login, name, email] = [
    text(claims.preferred_username),
    text(claims.name),
    text(claims.email),
  ]
  return {
    subject: claims.sub,
    idToken: result.id_token,
    accessToken: result.access_token,
    ...(result.expires_in === undefined ? {} : { accessTokenLifeSeconds: result.expires_in }),
    profile: { ...(login && { login }), ...(name && { name }), ...(email && { email }) },
  }
}

/** Where to send a browser that signs out (OpenID Connect RP-Initiated Logout); null when the provider has no such place. */
export async function signOutUrl(
  provider: CodeFlowProvider,
  of: { readonly idToken: string; readonly returnTo: string },
): Promise<string | null> {
  const as = await discovered(provider)
  if (as.end_session_endpoint === undefined) return null
  const url = new URL(as.end_session_endpoint)
  url.searchParams.set('id_token_hint', of.idToken)
  url.searchParams.set('post_logout_redirect_uri', of.returnTo)
  url.searchParams.set('client_id', provider.clientId)
  return url.href
}
