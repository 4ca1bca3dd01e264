import type { TenantRef, UserCaller } from '../../callers.ts'
import { Journal } from '../../db/activity.ts'
import {
  browserSession,
  deleteBrowserSession,
  insertBrowserSession,
  insertSignIn,
  takeSignIn,
  type WebProvider,
  webProvider,
} from '../../db/browser-sessions.ts'
import { opened } from '../../db/sealed.ts'
import { withRead, withTx } from '../../db/tx.ts'
import { findOrCreateUser } from '../../db/users.ts'
import { fail, ok, type Result } from '../../fault.ts'
import { beginSignIn, type Finished, finishSignIn, signOutUrl } from '../../identity/code-flow.ts'
import { type Ctx, issuerOf } from '../../ports.ts'
import { cookieOf, fromOwnPage, sessionCookie, setCookie, signInCookie } from './cookies.ts'
import { messagePage } from './pages.ts'
import { safeReturn } from './return-to.ts'

const SIGN_IN_SECONDS = 600
const SESSION_SECONDS = 12 * 3600

export type SignInDeps = {
  readonly ctx: Ctx
  readonly onBug: (error: unknown, requestId: string) => void
  /** Where a browser goes once it is signed in, on its way to `returnTo`: the agent app signs the person in there too. */
  readonly afterSignIn?: (tenant: TenantRef, returnTo: string) => string
}

/** With its client's secret opened. Throws where it does not open: then nobody signs in through it. */
function openedProvider(ctx: Ctx, tenant: TenantRef, provider: WebProvider) {
  const row = { kind: 'identity_provider', tenantId: tenant.id, id: provider.id } as const
  const clientSecret = opened(ctx.vault, row, provider.clientSecret)
  if (clientSecret === null)
    throw new Error(
      `the web client's secret at ${provider.issuer} (${provider.id}) does not open: put the key that sealed it back into LEND_SECRET_KEYS, or give the secret again`,
    )
  return { ...provider, clientSecret }
}

const redirectUri = (ctx: Ctx, tenant: TenantRef): string =>
  `${issuerOf(ctx, tenant.slug)}/auth/callback`

const redirect = (to: string, cookies: readonly string[] = []): Response => {
  const headers = new Headers({
    location: to,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  })
  for (const cookie of cookies) headers.append('set-cookie', cookie)
  return new Response(null, { status: 303, headers })
}

/** `GET /t/{tenant}/auth/login`: begins the code flow at the tenant's identity provider. */
export async function login(
  deps: SignInDeps,
  tenant: TenantRef,
  request: Request,
  requestId: string,
): Promise<Response> {
  const { ctx } = deps
  const provider = await withRead(ctx.db, 'web_provider', (tx) => webProvider(tx, tenant.id))
  if (provider === null)
    return messagePage(
      404,
      'Nobody can sign in here yet',
      'This organisation has no identity provider for the web page. Its administrator can add one.',
    )
  const returnTo = safeReturn(tenant.slug, new URL(request.url).searchParams.get('return_to'))
  let begun: Awaited<ReturnType<typeof beginSignIn>>
  try {
    begun = await beginSignIn(openedProvider(ctx, tenant, provider), redirectUri(ctx, tenant))
  } catch (error) {
    deps.onBug(error, requestId)
    return messagePage(
      503,
      'Sign-in is not possible just now',
      'The identity provider cannot be reached. Nothing was changed. Try again in a minute.',
    )
  }
  const browser = ctx.ids.secret()
  await withTx(ctx.db, 'begin_sign_in', (tx) =>
    insertSignIn(tx, {
      ...begun,
      browser,
      tenantId: tenant.id,
      providerId: provider.id,
      returnTo,
      expiresAt: ctx.clock.now() / 1000 + SIGN_IN_SECONDS,
    }),
  )
  const cookie = {
    name: signInCookie(tenant.slug),
    value: browser,
    path: `/t/${tenant.slug}/auth`,
    seconds: SIGN_IN_SECONDS,
  }
  return redirect(begun.url, [setCookie(ctx, cookie)])
}

/** `GET /t/{tenant}/auth/callback`: single use, bound to the browser that began, `iss` checked; a new secret every time. */
export async function callback(
  deps: SignInDeps,
  tenant: TenantRef,
  request: Request,
  requestId: string,
): Promise<Response> {
  const { ctx } = deps
  const again = { href: `/t/${tenant.slug}/auth/login`, text: 'Sign in again' }
  const stale = () =>
    messagePage(
      400,
      'This sign-in is over',
      'It was used already, took too long, or began in another browser.',
      again,
    )
  const asked = new URL(request.url)
  // The address as the provider knows it, whatever host name this request came by.
  const callbackUrl = new URL(`${redirectUri(ctx, tenant)}${asked.search}`)
  const state = asked.searchParams.get('state')
  const browser = cookieOf(request, signInCookie(tenant.slug))
  if (state === null || browser === undefined) return stale()
  const now = ctx.clock.now() / 1000
  const begun = await withTx(ctx.db, 'take_sign_in', (tx) =>
    takeSignIn(tx, { state, browser, tenantId: tenant.id, now }),
  )
  if (begun === null) return stale()
  const provider = await withRead(ctx.db, 'web_provider', (tx) =>
    webProvider(tx, tenant.id, begun.providerId),
  )
  if (provider === null) return stale()
  let finished: Finished
  try {
    finished = await finishSignIn(openedProvider(ctx, tenant, provider), {
      ...begun,
      callback: callbackUrl,
      redirectUri: redirectUri(ctx, tenant),
      state,
    })
  } catch (error) {
    deps.onBug(error, requestId)
    return messagePage(
      400,
      'You are not signed in',
      'The identity provider’s answer was not accepted, or sign-in was cancelled there.',
      again,
    )
  }
  const secret = ctx.ids.secret()
  const signedIn = await withTx(ctx.db, 'finish_sign_in', async (tx): Promise<Result<true>> => {
    const journal = new Journal(ctx, tenant.id)
    const person = {
      issuer: provider.issuer,
      subject: finished.subject,
      createsUsers: provider.createsUsers,
      ...finished.profile,
    }
    const user = await findOrCreateUser(ctx, tx, tenant, person, journal)
    if (user === null) return fail('user_unknown')
    if (user.status !== 'active') return fail('user_disabled')
    await insertBrowserSession(tx, {
      secret,
      tenantId: tenant.id,
      userId: user.id,
      providerId: provider.id,
      clientId: provider.clientId,
      idToken: finished.idToken,
      now,
      expiresAt: now + SESSION_SECONDS,
    })
    journal.tenant(
      'login.succeeded',
      { via: provider.clientId, provider: provider.id },
      { userId: user.id },
    )
    await journal.write(tx)
    return ok(true)
  })
  if (!signedIn.ok)
    return messagePage(
      403,
      'You cannot use Lend here',
      'Your organisation does not know you, or has disabled your account. Ask an administrator.',
      again,
    )
  const session = {
    name: sessionCookie(tenant.slug),
    value: secret,
    path: `/t/${tenant.slug}/`,
    seconds: SESSION_SECONDS,
  }
  const used = {
    name: signInCookie(tenant.slug),
    value: '',
    path: `/t/${tenant.slug}/auth`,
    seconds: 0,
  }
  const next = deps.afterSignIn?.(tenant, begun.returnTo) ?? begun.returnTo
  return redirect(next, [setCookie(ctx, session), setCookie(ctx, used)])
}

/** `POST /t/{tenant}/auth/logout`: ends the browser session here; the answer says where to go to end it at the provider. */
export async function logout(
  deps: SignInDeps,
  tenant: TenantRef,
  request: Request,
  requestId: string,
): Promise<Response> {
  const { ctx } = deps
  if (!fromOwnPage(request, ctx.publicUrl))
    return Response.json(
      { code: 'forbidden', detail: 'Only this page can sign out.' },
      { status: 403 },
    )
  const secret = cookieOf(request, sessionCookie(tenant.slug))
  const ended =
    secret === undefined
      ? null
      : await withTx(ctx.db, 'sign_out', (tx) =>
          deleteBrowserSession(tx, { secret, tenantId: tenant.id }),
        )
  let to = `/t/${tenant.slug}/sessions`
  if (ended !== null) {
    const provider = await withRead(ctx.db, 'web_provider', (tx) =>
      webProvider(tx, tenant.id, ended.providerId),
    )
    try {
      const returnTo = `${ctx.publicUrl}/t/${tenant.slug}`
      const { idToken } = ended
      if (provider)
        to = (await signOutUrl(openedProvider(ctx, tenant, provider), { idToken, returnTo })) ?? to
    } catch (error) {
      // Signed out here all the same.
      deps.onBug(error, requestId)
    }
  }
  const gone = {
    name: sessionCookie(tenant.slug),
    value: '',
    path: `/t/${tenant.slug}/`,
    seconds: 0,
  }
  return Response.json(
    { redirect: to },
    { headers: { 'set-cookie': setCookie(ctx, gone), 'cache-control': 'no-store' } },
  )
}

/**
 * Who a cookie says is calling the People API. Null: no cookie of this tenant. A write that did not come from our own page
 * is refused (CSRF), whoever it is.
 */
export const browserUserFrom =
  (ctx: Ctx) =>
  async (
    request: Request,
    tenant: TenantRef,
  ): Promise<Result<UserCaller & { readonly expiresAt: number }> | null> => {
    const secret = cookieOf(request, sessionCookie(tenant.slug))
    if (secret === undefined) return null
    if (!fromOwnPage(request, ctx.publicUrl))
      return fail('forbidden', {
        detail: 'A write with a cookie must come from this site’s own page.',
      })
    const now = ctx.clock.now() / 1000
    const signedIn = await withRead(ctx.db, 'browser_session', (tx) =>
      browserSession(tx, { secret, tenantId: tenant.id, now }),
    )
    if (signedIn === null) return fail('unauthenticated')
    if (!signedIn.active) return fail('user_disabled')
    const { active: _, ...person } = signedIn
    return ok({ as: 'user', tenant, ...person })
  }
