import {
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  ClientSecretBasic,
  type CustomFetchOptions,
  calculatePKCECodeChallenge,
  customFetch,
  discoveryRequest,
  generateRandomCodeVerifier,
  generateRandomState,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  validateAuthResponse,
} from 'oauth4webapi'
import { DEMO_CLIENTS, demoIssuerOf, demoSignedInUrl } from './provider.ts'

type Fetch = typeof globalThis.fetch

export type SignIn = {
  readonly publicUrl: string
  readonly tenant: string
  readonly login: string
  /** `people` opens the People API; `app` is what the demo agent exchanges. */
  readonly client: keyof typeof DEMO_CLIENTS
  readonly clientSecret: string
  readonly fetch?: Fetch
}

export type SignedIn = { readonly accessToken: string; readonly idToken: string }

const STEPS_MAX = 10

/**
 * Signs a demo person in as a browser would: the authorization code flow with PKCE (RFC 6749
 * section 4.1, RFC 7636) over HTTP against the running demo provider, through its sign-in form.
 * Answers with the access token. Throws if the provider does not let the person in.
 */
export async function signIn(options: SignIn): Promise<string> {
  return (await signInFully(options)).accessToken
}

/** As `signIn`, with the ID token too. */
export async function signInFully(options: SignIn): Promise<SignedIn> {
  const { publicUrl, tenant, fetch = globalThis.fetch } = options
  const http = { [customFetch]: passing(fetch), [allowInsecureRequests]: true }
  const issuer = new URL(demoIssuerOf(publicUrl, tenant))
  const found = await discoveryRequest(issuer, { ...http, algorithm: 'oidc' })
  const server = await processDiscoveryResponse(issuer, found)
  const client = { client_id: DEMO_CLIENTS[options.client] }
  const redirectUri = demoSignedInUrl(publicUrl, tenant)
  const verifier = generateRandomCodeVerifier()
  const state = generateRandomState()
  const start = authorizationUrl(server, {
    client_id: client.client_id,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid profile email',
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
  })
  const callback = await browse({ start, redirectUri, login: options.login, fetch })
  const parameters = validateAuthResponse(server, client, callback, state)
  const answer = await authorizationCodeGrantRequest(
    server,
    client,
    ClientSecretBasic(options.clientSecret),
    parameters,
    redirectUri,
    verifier,
    http,
  )
  const tokens = await processAuthorizationCodeResponse(server, client, answer, {
    requireIdToken: true,
  })
  return { accessToken: tokens.access_token, idToken: tokens.id_token ?? '' }
}

/**
 * The library passes `body: undefined`, which `fetch` takes for the same as no body but its type
 * does not.
 */
const passing =
  (fetch: Fetch) =>
  (url: string, { body, ...rest }: CustomFetchOptions<string, URLSearchParams | undefined>) =>
    fetch(url, body === undefined ? rest : { ...rest, body })

function authorizationUrl(
  server: AuthorizationServer,
  parameters: Readonly<Record<string, string>>,
): URL {
  const url = new URL(server.authorization_endpoint ?? '')
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  return url
}

type Browsing = {
  readonly start: URL
  readonly redirectUri: string
  readonly login: string
  readonly fetch: Fetch
}

/**
 * Follows redirects and fills in the one form, until the provider sends the browser back to the
 * client.
 */
async function browse({ start, redirectUri, login, fetch }: Browsing): Promise<URL> {
  const cookies = new CookieJar()
  let url = start
  let body: URLSearchParams | null = null
  for (let step = 0; step < STEPS_MAX; step++) {
    if (url.origin !== start.origin) throw new Error('the demo provider sent us elsewhere')
    const answer: Response = await fetch(url, {
      method: body === null ? 'GET' : 'POST',
      headers: { accept: 'text/html', cookie: cookies.headerFor(url) },
      body,
      redirect: 'manual',
    })
    cookies.take(answer)
    const location = answer.headers.get('location')
    const form =
      location === null ? /<form method="post" action="([^"]*)"/.exec(await answer.text()) : null
    if (location !== null) {
      url = new URL(location, url)
      body = null
      if (url.href.startsWith(`${redirectUri}?`)) return url
    } else if (answer.status === 200 && form?.[1] !== undefined && body === null) {
      url = new URL(form[1], url)
      body = new URLSearchParams({ login, password: login })
    } else {
      throw new Error(`the demo provider did not sign ${login} in (HTTP ${answer.status})`)
    }
  }
  throw new Error('the demo provider sent us in circles')
}

/** Cookies by name and path, as far as one origin needs them (RFC 6265 section 5.1.4). */
class CookieJar {
  readonly #cookies = new Map<string, { readonly pair: string; readonly path: string }>()

  take(answer: Response): void {
    for (const line of answer.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split(/;\s*/)
      const path = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5) ?? '/'
      this.#cookies.set(`${pair.split('=', 1)[0]} ${path}`, { pair, path })
    }
  }

  headerFor(url: URL): string {
    return [...this.#cookies.values()]
      .filter(({ path }) => `${url.pathname}/`.startsWith(path.endsWith('/') ? path : `${path}/`))
      .map(({ pair }) => pair)
      .join('; ')
  }
}
