import type { Ctx } from '../../ports.ts'

/**
 * Cookies of the web page. Each serves one tenant: its path is the tenant's, its name says which. HttpOnly, so no script
 * reads it; SameSite=Lax, so another site's form or fetch does not send it; Secure wherever the page is https (Safari
 * refuses Secure cookies on plain-http loopback, which only the demo uses).
 */
export const sessionCookie = (tenant: string): string => `lend_${tenant}`
export const signInCookie = (tenant: string): string => `lend_signin_${tenant}`

export function setCookie(
  ctx: Pick<Ctx, 'publicUrl'>,
  of: {
    readonly name: string
    readonly value: string
    readonly path: string
    readonly seconds: number
  },
): string {
  const secure = ctx.publicUrl.startsWith('https:') ? '; Secure' : ''
  return `${of.name}=${of.value}; Path=${of.path}; Max-Age=${of.seconds}; HttpOnly; SameSite=Lax${secure}`
}

export function cookieOf(request: Request, name: string): string | undefined {
  for (const pair of (request.headers.get('cookie') ?? '').split(';')) {
    const [key, value] = pair.trim().split('=', 2)
    if (key === name && value !== undefined && /^[A-Za-z0-9_-]{1,128}$/.test(value)) return value
  }
  return undefined
}

const SAFE_METHODS = new Set(['GET', 'HEAD'])

/**
 * Whether a request that carries a cookie was made by our own page (CSRF). Browsers say so in Sec-Fetch-Site; an old one
 * at least sends Origin with a write. A request that says neither is not from a page, and is refused for writes.
 */
export function fromOwnPage(request: Request, publicUrl: string): boolean {
  if (SAFE_METHODS.has(request.method)) return true
  const site = request.headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin') return false
  const origin = request.headers.get('origin')
  if (origin !== null) return sameOrigin(origin, publicUrl)
  return site === 'same-origin'
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

function sameOrigin(origin: string, publicUrl: string): boolean {
  if (origin === publicUrl) return true
  if (!URL.canParse(origin)) return false
  const [a, b] = [new URL(origin), new URL(publicUrl)]
  return (
    a.protocol === b.protocol &&
    a.port === b.port &&
    LOOPBACK.has(a.hostname) &&
    LOOPBACK.has(b.hostname)
  )
}
