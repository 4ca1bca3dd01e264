/**
 * Where a browser goes after a sign-in. Only to a page of this tenant, named by its path: never another host (RFC 9700: no
 * open redirector), and never a door of the sign-in itself.
 */
export function safeReturn(tenant: string, wanted: string | null | undefined): string {
  const own = `/t/${tenant}/`
  const home = `${own}sessions`
  const plain = wanted && wanted.length <= 500 && /^\/[A-Za-z0-9/_?&=.%-]+$/.test(wanted)
  if (!plain || wanted.includes('//')) return home
  // Read as a browser will read it: `..`, in any of its spellings, leads out.
  const { pathname, search } = new URL(wanted, 'http://here')
  return pathname.startsWith(own) && !pathname.startsWith(`${own}auth/`)
    ? `${pathname}${search}`
    : home
}
