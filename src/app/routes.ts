import { randomBytes } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { z } from 'zod'
import { cookieOf, fromOwnPage, setCookie } from '../http/browser/cookies.ts'
import { messagePage } from '../http/browser/pages.ts'
import { safeReturn } from '../http/browser/return-to.ts'
import { beginSignIn, finishSignIn } from '../identity/code-flow.ts'
import type { AppConfig, AppTenant } from './config.ts'
import { LendRefused } from './lend.ts'
import type { Brain } from './model.ts'
import type { RunEvent, Runner } from './runner.ts'
import type { Browser, Run, Store } from './store.ts'

const SIGN_IN_SECONDS = 600
const HEARTBEAT_MILLIS = 15_000
const TEXT_LENGTH_MAX = 2_000

type Pending = {
  readonly tenant: string
  readonly browser: string
  readonly nonce: string
  readonly codeVerifier: string
  readonly returnTo: string
  readonly until: number
}

type Deps = {
  readonly config: AppConfig
  readonly store: Store
  readonly runner: Runner
  readonly brain: Brain
}

const secret = (): string => randomBytes(32).toString('base64url')
const cookieName = (tenant: string): string => `lend_app_${tenant}`
const SIGN_IN_COOKIE = 'lend_app_signin'

const problem = (status: 400 | 401 | 403 | 404 | 409, code: string, detail: string) =>
  Response.json(
    { code, title: detail, status, detail },
    { status, headers: { 'content-type': 'application/problem+json' } },
  )

/**
 * Sign-in to the app: its own client at the organisation's provider, against the same session there, so the person is not
 * asked twice. What it gets is the token that the app may exchange; it is useless for answering (SPEC section 8, I6).
 */
function signInRoutes(app: Hono, { config, store, runner }: Deps): void {
  const pending = new Map<string, Pending>()
  const redirectUri = `${config.publicUrl}/app/callback`

  app.get('/app/t/:tenant/auth/login', async (c) => {
    const tenant = runner.tenantOf(c.req.param('tenant'))
    if (tenant === undefined)
      return messagePage(404, 'No agent here', 'This organisation has no agent app.')
    const now = Date.now() / 1000
    for (const [state, one] of pending) if (one.until <= now) pending.delete(state)
    const returnTo = safeReturn(tenant.slug, c.req.query('return_to'))
    try {
      const begun = await beginSignIn(tenant.signIn, redirectUri)
      const browser = secret()
      pending.set(begun.state, {
        ...begun,
        tenant: tenant.slug,
        browser,
        returnTo,
        until: now + SIGN_IN_SECONDS,
      })
      const cookie = setCookie(config, {
        name: SIGN_IN_COOKIE,
        value: browser,
        path: '/app/callback',
        seconds: SIGN_IN_SECONDS,
      })
      return new Response(null, {
        status: 303,
        headers: { location: begun.url, 'set-cookie': cookie, 'cache-control': 'no-store' },
      })
    } catch (error) {
      config.onBug(error)
      return messagePage(
        503,
        'Sign-in is not possible just now',
        'The identity provider cannot be reached. Try again in a minute.',
      )
    }
  })

  app.get('/app/callback', async (c) => {
    const state = c.req.query('state') ?? ''
    const begun = pending.get(state)
    pending.delete(state)
    const tenant = begun === undefined ? undefined : runner.tenantOf(begun.tenant)
    if (
      begun === undefined ||
      tenant === undefined ||
      cookieOf(c.req.raw, SIGN_IN_COOKIE) !== begun.browser ||
      begun.until <= Date.now() / 1000
    )
      return messagePage(
        400,
        'This sign-in is over',
        'It was used already, took too long, or began in another browser.',
        { href: '/', text: 'Start again' },
      )
    try {
      const callback = new URL(`${redirectUri}${new URL(c.req.url).search}`)
      const done = await finishSignIn(tenant.signIn, { ...begun, callback, redirectUri, state })
      const browser: Browser = {
        secret: secret(),
        tenant: tenant.slug,
        subject: done.subject,
        login: done.profile.login ?? done.subject,
        accessToken: done.accessToken,
        expiresAt: Date.now() / 1000 + (done.accessTokenLifeSeconds ?? 600),
      }
      store.saveBrowser(browser)
      const seconds = Math.floor(browser.expiresAt - Date.now() / 1000)
      const cookie = setCookie(config, {
        name: cookieName(tenant.slug),
        value: browser.secret,
        path: `/app/t/${tenant.slug}/`,
        seconds,
      })
      return new Response(null, {
        status: 303,
        headers: { location: begun.returnTo, 'set-cookie': cookie, 'cache-control': 'no-store' },
      })
    } catch (error) {
      config.onBug(error)
      return messagePage(
        400,
        'You are not signed in to the agent app',
        'The identity provider’s answer was not accepted.',
        { href: '/', text: 'Start again' },
      )
    }
  })

  app.post('/app/t/:tenant/auth/logout', (c) => {
    const tenant = c.req.param('tenant')
    if (runner.tenantOf(tenant) === undefined)
      return problem(404, 'not_found', 'This organisation has no agent app.')
    if (!fromOwnPage(c.req.raw, config.publicUrl))
      return problem(403, 'forbidden', 'Only the page can sign out.')
    const value = cookieOf(c.req.raw, cookieName(tenant))
    if (value !== undefined) store.dropBrowser(value)
    const gone = setCookie(config, {
      name: cookieName(tenant),
      value: '',
      path: `/app/t/${tenant}/`,
      seconds: 0,
    })
    return c.json({}, 200, { 'set-cookie': gone })
  })
}

type Signed = { readonly tenant: AppTenant; readonly browser: Browser }

/** Who is asking; a Response says why not. Writes must come from the page itself. */
function signedIn(c: Context, { config, store, runner }: Deps): Signed | Response {
  const tenant = runner.tenantOf(c.req.param('tenant') ?? '')
  if (tenant === undefined) return problem(404, 'not_found', 'This organisation has no agent app.')
  if (!fromOwnPage(c.req.raw, config.publicUrl))
    return problem(403, 'forbidden', 'A write must come from the page itself.')
  const value = cookieOf(c.req.raw, cookieName(tenant.slug))
  const browser = value === undefined ? undefined : store.browser(value)
  return browser === undefined || browser.tenant !== tenant.slug
    ? problem(401, 'unauthenticated', 'Sign in to the agent app.')
    : { tenant, browser }
}

function ownRun(c: Context, deps: Deps, who: Signed): Run | Response {
  const run = deps.store.run(c.req.param('session') ?? '')
  return run !== undefined && run.tenant === who.tenant.slug && run.subject === who.browser.subject
    ? run
    : problem(404, 'not_found', 'The agent app has no such session of yours.')
}

const started = z.strictObject({
  session_id: z.string().regex(/^ses_[A-Za-z0-9]{1,64}$/),
  task: z.string().trim().min(1).max(TEXT_LENGTH_MAX),
})
const written = z.strictObject({ text: z.string().trim().min(1).max(TEXT_LENGTH_MAX) })

async function bodyOf<T>(c: Context, schema: z.ZodType<T>): Promise<T | Response> {
  const read = schema.safeParse(await c.req.json().catch(() => undefined))
  if (read.success) return read.data
  const [issue] = read.error.issues
  return problem(
    400,
    'request_malformed',
    `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not well formed'}`,
  )
}

const runView = (run: Run) => ({ session_id: run.sessionId, state: run.state, messages: run.chat })

function runRoutes(app: Hono, deps: Deps): void {
  const { runner, store, brain } = deps
  app.get('/app/t/:tenant/api/me', (c) => {
    const who = signedIn(c, deps)
    const model = { kind: brain.kind, name: brain.name }
    if (who instanceof Response) {
      const tenant = runner.tenantOf(c.req.param('tenant'))
      return tenant === undefined ? who : c.json({ signed_in: false, model })
    }
    const { agent, templates } = who.tenant
    return c.json({
      signed_in: true,
      login: who.browser.login,
      agent: { id: agent.id, name: agent.name, templates },
      model,
    })
  })

  app.post('/app/t/:tenant/api/runs', async (c) => {
    const who = signedIn(c, deps)
    if (who instanceof Response) return who
    const body = await bodyOf(c, started)
    if (body instanceof Response) return body
    if (store.run(body.session_id) !== undefined)
      return problem(409, 'already_exists', 'The agent works on this session already.')
    try {
      const run = await runner.start({
        tenant: who.tenant.slug,
        subject: who.browser.subject,
        userToken: who.browser.accessToken,
        sessionId: body.session_id,
        task: body.task,
      })
      return c.json(runView(run), 201)
    } catch (error) {
      if (error instanceof LendRefused) return problem(409, error.reason, error.message)
      throw error
    }
  })

  app.get('/app/t/:tenant/api/runs/:session', (c) => {
    const who = signedIn(c, deps)
    if (who instanceof Response) return who
    const run = ownRun(c, deps, who)
    return run instanceof Response ? run : c.json(runView(run))
  })

  app.post('/app/t/:tenant/api/runs/:session/messages', async (c) => {
    const who = signedIn(c, deps)
    if (who instanceof Response) return who
    const run = ownRun(c, deps, who)
    if (run instanceof Response) return run
    if (run.state === 'ended')
      return problem(409, 'session_over', 'The session is over. Start a new one.')
    const body = await bodyOf(c, written)
    if (body instanceof Response) return body
    runner.message(run.sessionId, body.text)
    return c.json({}, 202)
  })

  app.post('/app/t/:tenant/api/runs/:session/stop', (c) => {
    const who = signedIn(c, deps)
    if (who instanceof Response) return who
    const run = ownRun(c, deps, who)
    if (run instanceof Response) return run
    runner.stop(run.sessionId)
    return c.json({}, 202)
  })

  app.get('/app/t/:tenant/api/runs/:session/events', (c) => {
    const who = signedIn(c, deps)
    if (who instanceof Response) return who
    const run = ownRun(c, deps, who)
    return run instanceof Response ? run : eventStream(c, deps, run.sessionId)
  })
}

/** What there is, then what comes. A reconnect gets all of it again: messages replace by id, so none is lost or doubled. */
function eventStream(c: Context, { runner, store }: Deps, sessionId: string): Response {
  return streamSSE(c, async (stream) => {
    let n = 0
    const send = async (event: RunEvent) => {
      const { event: name, ...data } = event
      n++
      await stream.writeSSE({ event: name, id: String(n), data: JSON.stringify(data) })
    }
    const queue: RunEvent[] = []
    let wake = () => {}
    const unsubscribe = runner.subscribe(sessionId, (event) => {
      queue.push(event)
      wake()
    })
    stream.onAbort(() => wake())
    try {
      const run = store.run(sessionId)
      for (const message of run?.chat ?? []) await send({ event: 'message', message })
      if (run) await send({ event: 'state', state: run.state })
      while (!stream.aborted && !stream.closed) {
        for (const event of queue.splice(0)) await send(event)
        if (queue.length > 0) continue
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, HEARTBEAT_MILLIS)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
        if (queue.length === 0 && !stream.aborted) await stream.write(': alive\n\n')
      }
    } finally {
      unsubscribe()
    }
  })
}

/** The app's own routes, under `/app`. */
export function appRoutes(deps: Deps): Hono {
  const app = new Hono()
  app.use('/app/*', async (c, next) => {
    await next()
    c.res.headers.set('x-content-type-options', 'nosniff')
    if (!c.res.headers.has('cache-control')) c.res.headers.set('cache-control', 'no-store')
  })
  signInRoutes(app, deps)
  runRoutes(app, deps)
  return app
}
