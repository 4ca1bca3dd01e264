/** Addresses that admins register. Each answers what is wrong with it, in words that follow the field's name, or null. */

const parsed = (text: string): URL | null => {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']

/** The three names of this machine are one. */
const sameHost = (a: string, b: string): boolean =>
  a === b || (LOOPBACK.includes(a) && LOOPBACK.includes(b))

/**
 * Whether a URL is one of Lend's own: its issuers, token endpoints, MCP URLs and gateways all live under `/t/`. The host
 * alone counts, not the scheme: behind a proxy the same server answers to both.
 */
function isOurs(url: URL, publicUrl: string): boolean {
  const own = new URL(publicUrl)
  const base = own.pathname.replace(/\/$/, '')
  return (
    sameHost(url.hostname.replace(/\.$/, ''), own.hostname) &&
    url.port === own.port &&
    `${url.pathname}/`.startsWith(`${base}/t/`)
  )
}

/** RFC 8707 section 2: an absolute URI without a fragment; here spelled in one way only, since it is compared as text. */
export function resourceProblem(resource: string, publicUrl: string): string | null {
  const url = parsed(resource)
  if (url === null) return 'must be an absolute URI'
  if (resource.includes('#')) return 'may not have a fragment'
  if (url.username !== '' || url.password !== '') return 'may not carry credentials'
  if (url.href !== resource && url.href !== `${resource}/`)
    return `must be in its normal form, ${url.href}`
  return isOurs(url, publicUrl) ? 'is an address of Lend itself' : null
}

/** Where an MCP server behind the gateway is: plain http only inside a private network, and never Lend itself. */
export function upstreamProblem(
  address: string,
  of: { readonly privateNetwork: boolean; readonly publicUrl: string },
): string | null {
  const url = parsed(address)
  if (url === null) return 'must be a URL'
  if (url.protocol !== 'https:' && !(of.privateNetwork && url.protocol === 'http:'))
    return of.privateNetwork ? 'must begin with https:// or http://' : 'must begin with https://'
  if (address.includes('#')) return 'may not have a fragment'
  if (url.username !== '' || url.password !== '') return 'may not carry credentials'
  if (url.href !== address && url.href !== `${address}/`)
    return `must be in its normal form, ${url.href}`
  return isOurs(url, of.publicUrl) ? 'is an address of Lend itself' : null
}

/** OpenID Connect Discovery section 3: no query and no fragment; plain http only inside a private network. */
export function issuerProblem(
  issuer: string,
  of: { readonly privateNetwork: boolean; readonly publicUrl: string },
): string | null {
  const url = parsed(issuer)
  if (url === null) return 'must be a URL'
  if (url.protocol !== 'https:' && !(of.privateNetwork && url.protocol === 'http:'))
    return of.privateNetwork ? 'must begin with https:// or http://' : 'must begin with https://'
  if (/[?#]/.test(issuer)) return 'may not have a query or a fragment'
  if (url.username !== '' || url.password !== '') return 'may not carry credentials'
  if (url.href !== issuer && url.href !== `${issuer}/`)
    return `must be in its normal form, ${url.href}`
  return isOurs(url, of.publicUrl) ? 'is an issuer of Lend itself' : null
}
