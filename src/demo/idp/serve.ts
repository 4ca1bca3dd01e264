import type { IncomingMessage, ServerResponse } from 'node:http'
import type OidcProvider from 'oidc-provider'
import { messagePage, SECURITY_HEADERS, signInPage } from './pages.ts'
import {
  createProvider,
  DEMO_CLIENT_NAMES,
  type DemoTenant,
  demoIssuerOf,
  demoMountOf,
  loadOidc,
} from './provider.ts'
import type { DemoIdpSecrets } from './secrets.ts'

export type DemoIdp = {
  /** Answers if the path is one of the demo providers', and says whether it is. */
  readonly handle: (req: IncomingMessage, res: ServerResponse) => boolean
  readonly issuerOf: (slug: string) => string
  /** What Lend is told to trust for this tenant. */
  readonly audienceOf: (slug: string) => string
}

export type DemoIdpOptions = DemoIdpSecrets & {
  readonly publicUrl: string
  readonly tenants: readonly DemoTenant[]
  /** Hears of what broke inside a provider; by default on the console. Never given a token. */
  readonly onError?: (error: Error) => void
}

type Mounted = {
  readonly tenant: DemoTenant
  readonly provider: OidcProvider
  readonly serve: (req: IncomingMessage, res: ServerResponse) => Promise<void>
}

const PREFIX = '/demo/idp'
const FORM_BYTES_MAX = 4 * 1024
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]']

const onConsole = (error: Error): void =>
  console.error(`demo identity provider: ${error.name}: ${error.message}`)

/**
 * The demo world's identity providers: one OpenID Connect issuer per tenant,
 * `{publicUrl}/demo/idp/{slug}`, in the same HTTP server as Lend. Call `handle` before anything
 * else answers. Throws if a tenant has no key or client secrets.
 */
export async function createDemoIdp(options: DemoIdpOptions): Promise<DemoIdp> {
  const { publicUrl, tenants, cookieSecret, onError = onConsole } = options
  const oidc = await loadOidc()
  const mounted = new Map<string, Mounted>()
  for (const tenant of tenants) {
    const keys = options.keys[tenant.slug]
    const secrets = options.clientSecrets[tenant.slug]
    if (keys === undefined || secrets === undefined) {
      throw new Error(`the demo identity provider of ${tenant.slug} has no secrets`)
    }
    const provider = createProvider(oidc, {
      publicUrl,
      tenant,
      keys,
      cookieSecret,
      secrets,
      onError,
    })
    mounted.set(tenant.slug, { tenant, provider, serve: provider.callback() })
  }
  return {
    handle: (req, res) => {
      const path = pathOf(req)
      if (path !== PREFIX && !path.startsWith(`${PREFIX}/`)) return false
      answer({ req, res, path, publicUrl, mounted }).catch((error: unknown) => {
        onError(error instanceof Error ? error : new Error('unknown'))
        if (!res.headersSent) sendPage(res, 500, messagePage('This did not work', 'Try again.'))
        else res.destroy()
      })
      return true
    },
    issuerOf: (slug) => demoIssuerOf(publicUrl, slug),
    audienceOf: (slug) => `${publicUrl}/t/${slug}`,
  }
}

const pathOf = (req: IncomingMessage): string => (req.url ?? '').split('?', 1)[0] ?? ''

type Answering = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly path: string
  readonly publicUrl: string
  readonly mounted: ReadonlyMap<string, Mounted>
}

async function answer({ req, res, path, publicUrl, mounted }: Answering): Promise<void> {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) res.setHeader(name, value)
  const home = new URL(publicUrl)
  // The library writes links from the Host header. Ours are fixed, and a name that is not ours (DNS
  // rebinding) gets nothing: everyone's password is public here.
  const asked = URL.canParse(`http://${req.headers.host}`)
    ? new URL(`http://${req.headers.host}`)
    : null
  if (asked === null || ![home.hostname, ...LOOPBACK_NAMES].includes(asked.hostname)) {
    return sendPage(res, 421, messagePage('Wrong address', `Open ${publicUrl} instead.`))
  }
  req.headers.host = home.host

  const [, slug = '', rest = ''] = /^\/demo\/idp\/([^/]+)(\/.*)?$/.exec(path) ?? []
  const found = mounted.get(slug)
  if (found === undefined) {
    return sendPage(res, 404, messagePage('Not found', 'There is nothing here.'))
  }
  if (rest === '/signed-in') {
    return sendPage(res, 200, messagePage('Signed in', 'You can close this page.'))
  }
  if (rest.startsWith('/interaction/')) return interact({ req, res, path, publicUrl, found })
  mount(req, demoMountOf(slug))
  await found.serve(req, res)
}

/** oidc-provider finds its prefix by comparing `originalUrl` with `url`. */
function mount(req: IncomingMessage & { originalUrl?: string }, prefix: string): void {
  const original = req.url ?? ''
  req.originalUrl = original
  req.url = original.slice(prefix.length) || '/'
}

type Interacting = Omit<Answering, 'mounted'> & { readonly found: Mounted }

/**
 * The sign-in page of one authorization request: GET shows it, POST checks who it is and goes on.
 */
async function interact({ req, res, path, publicUrl, found }: Interacting): Promise<void> {
  const { tenant, provider } = found
  const interaction = await provider.interactionDetails(req, res).catch(() => null)
  if (interaction === null || !path.endsWith(`/interaction/${interaction.uid}`)) {
    return sendPage(res, 400, messagePage('Too late', 'This sign-in has expired. Start again.'))
  }
  const form = {
    tenant: tenant.slug,
    app: DEMO_CLIENT_NAMES[String(interaction.params.client_id)] ?? 'an app',
    action: path,
    people: tenant.users,
  }
  if (req.method === 'GET' || req.method === 'HEAD') {
    return sendPage(res, 200, signInPage(form))
  }
  if (req.method !== 'POST') {
    return sendPage(res, 405, messagePage('Not allowed', 'Only a form is taken here.'))
  }
  const { origin } = req.headers
  // Browsers always send one with a form; a script that signs in over HTTP has none and no one's
  // cookies either.
  if (origin !== undefined && !isOurs(origin, publicUrl)) {
    return sendPage(res, 403, messagePage('Not allowed', 'That form came from another site.'))
  }
  const sent = await readForm(req)
  if (sent === null) {
    return sendPage(res, 413, messagePage('Too large', 'That is not the sign-in form.'))
  }
  const user = tenant.users.find((candidate) => candidate.login === sent.get('login'))
  if (user === undefined || sent.get('password') !== user.login) {
    const problem = 'That login and password do not go together.'
    return sendPage(res, 401, signInPage({ ...form, problem }))
  }
  const login = { accountId: user.subject, amr: ['pwd'] }
  await provider.interactionFinished(req, res, { login }, { mergeWithLastSubmission: false })
}

function isOurs(origin: string, publicUrl: string): boolean {
  const home = new URL(publicUrl)
  const url = URL.canParse(origin) ? new URL(origin) : null
  return (
    url !== null &&
    url.port === home.port &&
    [home.hostname, ...LOOPBACK_NAMES].includes(url.hostname)
  )
}

/** Null if it is larger than the form could be. */
async function readForm(req: IncomingMessage): Promise<URLSearchParams | null> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of req) {
    const bytes = Buffer.from(chunk)
    size += bytes.byteLength
    if (size > FORM_BYTES_MAX) return null
    chunks.push(bytes)
  }
  return new URLSearchParams(Buffer.concat(chunks).toString('utf8'))
}

function sendPage(res: ServerResponse, status: number, html: string): void {
  res.statusCode = status
  res.setHeader('content-type', 'text/html; charset=utf-8')
  res.end(html)
}
