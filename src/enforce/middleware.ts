import type { Enforcer, Verdict, Wanted } from './index.ts'

/** What a framework hands over: Hono's context, or anything that has the request in the same place. */
export type HttpContext = { readonly req: { readonly raw: Request } }

const MESSAGES: Readonly<Record<Verdict['reason'], string>> = {
  granted: 'Granted.',
  token_missing: 'An access token is needed, as a Bearer token in the Authorization header.',
  token_invalid: 'The token is not one for this service.',
  token_expired: 'The token has expired. Re-issue it.',
  session_over: 'The session is over, or the token has been superseded. Re-issue it.',
  resource_invalid: 'That is not the name of anything here.',
  not_granted: 'This session does not hold what this needs. Ask for it, then re-issue the token.',
  read_only: 'This session holds it for reading only.',
  narrowed: 'This session holds a part of it only.',
  unavailable: 'Nothing can be verified just now, so nothing is allowed. Try again.',
}

const NOT_ASKABLE =
  'This session does not hold what this needs, and asking for it would be refused. Go on without it.'

/**
 * What to answer to a refused call (RFC 6750 section 3). A refusal names the exact item to ask for,
 * so that an agent need not guess.
 */
export function refusalOf({ reason, status, ask, askable = true }: Verdict): Response {
  const message = askable ? MESSAGES[reason] : NOT_ASKABLE
  const headers = new Headers({ 'cache-control': 'no-store' })
  if (status === 503) headers.set('retry-after', '2')
  if (status === 401) {
    const error = reason === 'token_missing' ? '' : ' error="invalid_token"'
    headers.set('www-authenticate', `Bearer${error}`)
    return Response.json({ error: 'invalid_token', reason, message }, { status, headers })
  }
  if (status !== 403)
    return Response.json({ error: 'unavailable', reason, message }, { status, headers })
  headers.set('www-authenticate', 'Bearer error="insufficient_scope"')
  const body = {
    error: 'access_needed',
    reason,
    message,
    ...(askable ? { ask: { tool: 'iam.request_access', items: [ask] } } : {}),
  }
  return Response.json(body, { status, headers })
}

/** The bare token of an `Authorization` header, or null. A token anywhere else is no credential. */
export const bearerOf = (authorization: string | null | undefined): string | null =>
  /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization ?? '')?.[1] ?? null

const verdicts = new WeakMap<Request, Verdict>()

/** What `requirePermission` found for a request that it let through. */
export const verdictOf = (request: Request): Verdict | undefined => verdicts.get(request)

const TARGET_LENGTH_MAX = 256

/**
 * Middleware that lets a request through when its token holds what is wanted, and answers for it
 * when not. With credentials every call is reported, whichever way it went. `wanted` may be read
 * from the request: the object that is touched, say.
 *
 *   app.get('/dashboards/:id', requirePermission(lend, (c) => ({
 *     permission: 'dashboard:view', resource: `dashboard/${c.req.param('id')}` })), handler)
 */
export function requirePermission<C extends HttpContext>(
  enforcer: Enforcer,
  wanted: Wanted | ((context: C) => Wanted),
): (context: C, next: () => Promise<void>) => Promise<Response | undefined> {
  return async (context, next) => {
    const request = context.req.raw
    const what = typeof wanted === 'function' ? wanted(context) : wanted
    const verdict = await enforcer.check(bearerOf(request.headers.get('authorization')), what)
    // Without a session there is nobody to record it for.
    if (verdict.session !== null && enforcer.reports)
      enforcer.report({
        session: verdict.session,
        ...verdict.ask,
        ...(verdict.grant === null ? {} : { grant: verdict.grant.grant_id }),
        outcome: verdict.allowed ? 'allowed' : 'denied',
        ...(verdict.allowed ? {} : { reason: verdict.reason }),
        target: `${request.method} ${new URL(request.url).pathname}`.slice(0, TARGET_LENGTH_MAX),
      })
    if (!verdict.allowed) return refusalOf(verdict)
    verdicts.set(request, verdict)
    await next()
    return undefined
  }
}
