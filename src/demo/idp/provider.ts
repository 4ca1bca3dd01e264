import type { Account, Configuration, default as OidcProvider } from 'oidc-provider'
import { type DemoPerson, messagePage, signOutPage } from './pages.ts'
import type { DemoClientSecrets, DemoIdpKeys } from './secrets.ts'

export type DemoUser = DemoPerson & { readonly subject: string }
export type DemoTenant = { readonly slug: string; readonly users: readonly DemoUser[] }

/**
 * The clients of every demo provider: the first-party one that people use, and the demo agent's
 * app.
 */
export const DEMO_CLIENTS = { people: 'lend-web', app: 'renewal-app' } as const
export const DEMO_CLIENT_NAMES: Readonly<Record<string, string>> = {
  'lend-web': 'Lend',
  'renewal-app': 'the Renewal app',
}

export const demoMountOf = (slug: string): string => `/demo/idp/${slug}`
export const demoIssuerOf = (publicUrl: string, slug: string): string =>
  `${publicUrl}${demoMountOf(slug)}`
/**
 * Where a scripted sign-in ends. A page of the provider's own, so that no code is ever sent to
 * another program.
 */
export const demoSignedInUrl = (publicUrl: string, slug: string): string =>
  `${demoIssuerOf(publicUrl, slug)}/signed-in`

const SCOPES = 'openid profile email'
const ACCESS_TOKEN_SECONDS = 60 * 60
const SIGN_IN_SECONDS = 10 * 60
const SESSION_SECONDS = 24 * 60 * 60

type Oidc = typeof import('oidc-provider')

/** oidc-provider tells every development set-up that it is one. This is one, and means to be. */
const KNOWN_WARNINGS = [
  'oidc-provider WARNING: Unsupported runtime.',
  'oidc-provider WARNING: a quick start development-only in-memory adapter is used',
]

/**
 * Runs `work` without those warnings of the library's that are known. All others, and all errors,
 * pass.
 */
function quietly<T>(work: () => T): { readonly value: T; readonly restore: () => void } {
  const warn = console.warn
  const filtered = (...said: unknown[]) => {
    const text = String(said[0])
    if (!KNOWN_WARNINGS.some((known) => text.includes(known))) warn(...said)
  }
  console.warn = filtered
  const restore = () => {
    if (console.warn === filtered) console.warn = warn
  }
  try {
    return { value: work(), restore }
  } catch (error) {
    restore()
    throw error
  }
}

let library: Promise<Oidc> | null = null

/** Loaded when a demo is served and not before: a production server never runs any of it. */
export function loadOidc(): Promise<Oidc> {
  if (library === null) {
    const { value, restore } = quietly(() => import('oidc-provider'))
    library = value.finally(restore)
  }
  return library
}

export type DemoProviderOptions = {
  readonly publicUrl: string
  readonly tenant: DemoTenant
  readonly keys: DemoIdpKeys[string]
  readonly cookieSecret: string
  readonly secrets: DemoClientSecrets
  readonly onError: (error: Error) => void
}

/**
 * One tenant's OpenID Connect provider: authorization code with PKCE S256 for two confidential
 * clients; access tokens are JWTs (RFC 9068) for the tenant as an API, whether or not the client
 * asks for it (RFC 8707). State is in memory, bounded and expiring; what was signed outlives it.
 */
export function createProvider(oidc: Oidc, options: DemoProviderOptions): OidcProvider {
  const issuer = demoIssuerOf(options.publicUrl, options.tenant.slug)
  const { value: provider, restore } = quietly(
    () => new oidc.default(issuer, configurationOf(oidc, options)),
  )
  restore()
  provider.on('server_error', (_ctx, error: Error) => options.onError(error))
  return provider
}

function configurationOf(oidc: Oidc, options: DemoProviderOptions): Configuration {
  const { slug } = options.tenant
  const policy = oidc.interactionPolicy.base()
  // Both clients are the installation's own: nobody is asked whether they may know who signed in.
  policy.remove('consent')
  return {
    clients: clientsOf(options),
    jwks: { keys: options.keys.map((key) => ({ ...key })) },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    // A cookie of one tenant's provider is never sent to another's.
    cookies: {
      keys: [options.cookieSecret],
      long: { httpOnly: true, sameSite: 'lax', path: demoMountOf(slug) },
      short: { httpOnly: true, sameSite: 'lax' },
    },
    claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email'] },
    scopes: SCOPES.split(' '),
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic'],
    pkce: { required: () => true },
    clientBasedCORS: () => false,
    features: featuresOf(oidc, options),
    interactions: { policy, url: (_ctx, { uid }) => `${demoMountOf(slug)}/interaction/${uid}` },
    findAccount: (_ctx, subject) => accountOf(options.tenant, subject),
    extraTokenClaims: (_ctx, token) =>
      'accountId' in token ? profileOf(options.tenant, token.accountId) : undefined,
    loadExistingGrant: async (ctx) => {
      const { client, session } = ctx.oidc
      if (client === undefined || session?.accountId === undefined) return undefined
      const { accountId } = session
      const grantId = session.grantIdFor(client.clientId)
      const existing =
        grantId === undefined ? undefined : await ctx.oidc.provider.Grant.find(grantId)
      if (existing !== undefined && existing.accountId === accountId) return existing
      const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId })
      grant.addOIDCScope(SCOPES)
      await grant.save()
      return grant
    },
    renderError: (ctx, out) => {
      ctx.type = 'html'
      ctx.body = messagePage('This did not work', out.error_description ?? out.error)
    },
    ttl: {
      AccessToken: () => ACCESS_TOKEN_SECONDS,
      AuthorizationCode: () => 60,
      IdToken: () => ACCESS_TOKEN_SECONDS,
      Interaction: () => SIGN_IN_SECONDS,
      Session: () => SESSION_SECONDS,
      Grant: () => SESSION_SECONDS,
    },
  }
}

function clientsOf({ publicUrl, tenant, secrets }: DemoProviderOptions): Configuration['clients'] {
  const common = {
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic',
  } as const
  const signedIn = demoSignedInUrl(publicUrl, tenant.slug)
  return [
    {
      ...common,
      client_id: DEMO_CLIENTS.people,
      client_name: 'Lend',
      client_secret: secrets.people,
      redirect_uris: [
        `${publicUrl}/auth/callback`,
        `${publicUrl}/t/${tenant.slug}/auth/callback`,
        signedIn,
      ],
      post_logout_redirect_uris: [publicUrl, `${publicUrl}/`, `${publicUrl}/t/${tenant.slug}`],
    },
    {
      ...common,
      client_id: DEMO_CLIENTS.app,
      client_name: 'Renewal app',
      client_secret: secrets.app,
      redirect_uris: [`${publicUrl}/app/callback`, signedIn],
      post_logout_redirect_uris: [`${publicUrl}/app`],
    },
  ]
}

function featuresOf(oidc: Oidc, options: DemoProviderOptions): Configuration['features'] {
  const { publicUrl, tenant } = options
  const audience = `${publicUrl}/t/${tenant.slug}`
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    // Every access token is for the tenant's API; what userinfo would say is in the tokens.
    userinfo: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => {
        if (resource !== audience) throw new oidc.errors.InvalidTarget()
        return {
          scope: '',
          audience,
          accessTokenTTL: ACCESS_TOKEN_SECONDS,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }
      },
    },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (ctx, form) => {
        ctx.body = signOutPage(tenant.slug, form)
      },
      postLogoutSuccessSource: (ctx) => {
        ctx.body = messagePage('Signed out', `You are signed out of ${tenant.slug}.`)
      },
    },
  }
}

const profileOf = (tenant: DemoTenant, subject: string) => {
  const user = tenant.users.find((candidate) => candidate.subject === subject)
  if (user === undefined) return undefined
  return { preferred_username: user.login, name: user.name, email: user.email }
}

function accountOf(tenant: DemoTenant, subject: string): Account | undefined {
  const profile = profileOf(tenant, subject)
  if (profile === undefined) return undefined
  return { accountId: subject, claims: () => ({ sub: subject, ...profile }) }
}
