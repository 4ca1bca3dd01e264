import { createServer, type Server } from 'node:http'
import type { Browser, BrowserContext, Page, Response } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { Lend, type SecondApp } from './support/lend.ts'
import {
  card,
  eventually,
  nameOf,
  openWindow,
  seen,
  signedIn,
  signIn,
  startSession,
  type Window,
} from './support/person.ts'

/** Who may do what with a cookie, a callback or a token that is not theirs. */

let lend: Lend
let browser: Browser
let app: SecondApp
let elsewhere: Server
const windows: Window[] = []

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  app = await lend.secondApp()
  // Another site's page: on another port, so of another origin.
  elsewhere = createServer((_, res) => {
    res.setHeader('content-type', 'text/html')
    res.end('<!doctype html><title>Elsewhere</title><h1>Elsewhere</h1>')
  })
  await new Promise<void>((listening) => elsewhere.listen(0, '127.0.0.1', listening))
})
afterEach(async () => {
  for (const one of windows.splice(0)) await one.context.close()
})
afterAll(async () => {
  elsewhere?.close()
  await browser?.close()
  await lend?.stop()
})

const open = async (): Promise<Window> => {
  const one = await openWindow(browser)
  windows.push(one)
  return one
}
const openAs = async (login: string): Promise<Window> => {
  const one = await signedIn(browser, lend, { login })
  windows.push(one)
  return one
}

const cookieNamed = async (context: BrowserContext, name: string) =>
  (await context.cookies()).find((one) => one.name === name)

const me = (page: Page, tenant = 'acme'): Promise<number> =>
  page.evaluate(`fetch('/t/${tenant}/api/me').then((answer) => answer.status)`)

const STEPS_MAX = 10

/** Goes as far as the provider’s answer with this browser’s cookies, and does not follow it: the callback’s address. */
async function heldBack(
  { context }: Window,
  of: { readonly start?: string; readonly login?: string } = {},
): Promise<string> {
  const { start = '/t/acme/auth/login', login = 'maya' } = of
  const callback = /\/(t\/acme\/auth|app)\/callback\?/
  let url = `${lend.url}${start}`
  let form: Record<string, string> | undefined
  for (let step = 0; step < STEPS_MAX; step++) {
    const answer = await context.request.fetch(url, {
      maxRedirects: 0,
      ...(form === undefined ? {} : { method: 'POST', form }),
    })
    form = undefined
    const { location } = answer.headers()
    if (location !== undefined) url = new URL(location, url).href
    else {
      const action = /<form method="post" action="([^"]*)"/.exec(await answer.text())?.[1]
      if (action === undefined) throw new Error(`no form at ${url}`)
      url = new URL(action, url).href
      form = { login, password: login }
    }
    if (callback.test(url)) return url
  }
  throw new Error(`no answer of the provider after ${STEPS_MAX} steps`)
}

const APP_SIGN_IN = '/app/t/acme/auth/login'

describe('signing in', () => {
  it('the cookies are HttpOnly, SameSite=Lax and of the tenant’s own path; none holds a token', async () => {
    const { context, page } = await openAs('maya')
    const session = await cookieNamed(context, 'lend_acme')
    expect(session).toMatchObject({ httpOnly: true, sameSite: 'Lax', path: '/t/acme/' })
    const agent = await cookieNamed(context, 'lend_app_acme')
    expect(agent).toMatchObject({ httpOnly: true, sameSite: 'Lax', path: '/app/t/acme/' })
    for (const one of await context.cookies()) expect(one.httpOnly).toBe(true)
    expect(await page.evaluate('document.cookie')).toBe('')
    const values = [session?.value ?? '', agent?.value ?? '']
    for (const value of values) expect(value).toMatch(/^[A-Za-z0-9_-]{43}$/)
    const stored = await page.evaluate<string>(
      'JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)])',
    )
    expect(stored).not.toMatch(/eyJ/)
  })

  it('comes back to where one was, and nowhere else', async () => {
    const { page } = await open()
    await signIn(lend, page, { at: '/rules' })
    await seen(page.getByRole('heading', { name: 'Rules' }))
    for (const wanted of [
      'https://evil.example/',
      '//evil.example/',
      '/t/globex/sessions',
      '/t/acme/../../evil',
      '/t/acme/%2e%2e/%2E./evil',
      '/t/acme/auth/logout',
    ]) {
      // The agent app has a door of its own.
      for (const door of [lend.at('/auth/login'), `${lend.url}${APP_SIGN_IN}`]) {
        await page.goto(`${door}?return_to=${encodeURIComponent(wanted)}`)
        expect(page.url()).toBe(lend.at('/sessions'))
      }
    }
  })

  it('the answer of the provider is used once: the same callback again signs nobody in', async () => {
    const window = await open()
    const { page, context } = window
    const url = await heldBack(window)
    await page.goto(url)
    await seen(page.getByRole('link', { name: 'Lend, sessions' }))
    const before = await cookieNamed(context, 'lend_acme')
    const again = await page.goto(url)
    expect(again?.status()).toBe(400)
    await seen(page.getByText('This sign-in is over'))
    expect((await cookieNamed(context, 'lend_acme'))?.value).toBe(before?.value)
  })

  it('a callback followed in another browser signs nobody in there, and still works where it began', async () => {
    const [victim, attacker] = [await open(), await open()]
    const url = await heldBack(attacker, { login: 'omar' })
    // With no sign-in of its own, and with one under way.
    for (const prepare of [false, true]) {
      if (prepare) await heldBack(victim)
      const answer = await victim.page.goto(url)
      expect(answer?.status()).toBe(400)
      await seen(victim.page.getByText('began in another browser'))
      expect(await cookieNamed(victim.context, 'lend_acme')).toBe(undefined)
    }
    await attacker.page.goto(url)
    await seen(attacker.page.getByText(nameOf('omar')))
  })

  it('the same holds for the agent app’s own callback', async () => {
    const [victim, attacker] = [await open(), await open()]
    const url = await heldBack(attacker, { start: APP_SIGN_IN, login: 'omar' })
    const answer = await victim.page.goto(url)
    expect(answer?.status()).toBe(400)
    expect(await cookieNamed(victim.context, 'lend_app_acme')).toBe(undefined)
  })

  it('an answer with another state, another code or another issuer is refused', async () => {
    const change = {
      state: (url: URL) => url.searchParams.set('state', 'A'.repeat(43)),
      code: (url: URL) => url.searchParams.set('code', 'B'.repeat(43)),
      iss: (url: URL) => url.searchParams.set('iss', `${lend.url}/demo/idp/globex`),
      'no iss': (url: URL) => url.searchParams.delete('iss'),
    }
    for (const [what, how] of Object.entries(change)) {
      const window = await open()
      const url = new URL(await heldBack(window))
      how(url)
      const answer = await window.page.goto(url.href)
      expect([what, answer?.status()]).toEqual([what, 400])
      expect(await cookieNamed(window.context, 'lend_acme')).toBe(undefined)
    }
  })

  it('I17 a cookie of acme opens nothing of globex, by name or by value', async () => {
    const { context, page } = await openAs('maya')
    const value = (await cookieNamed(context, 'lend_acme'))?.value ?? ''
    expect(await me(page)).toBe(200)
    expect(await me(page, 'globex')).toBe(401)
    for (const name of ['lend_globex', 'lend_acme']) {
      const answer = await fetch(lend.at('/api/me', 'globex'), {
        headers: { cookie: `${name}=${value}` },
      })
      expect(answer.status).toBe(401)
    }
  })
})

describe('signing out', () => {
  async function signOut(page: Page): Promise<void> {
    await page.getByLabel(`${nameOf('maya')}: account and appearance`).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await seen(page.getByRole('heading', { name: /^Sign out of acme/ }))
    await page.getByRole('button', { name: 'Sign out' }).click()
    await seen(page.getByRole('heading', { name: 'Sign in to Acme' }))
  }

  it('ends the session at Lend and at the provider; the old cookie opens nothing', async () => {
    const { context, page } = await openAs('maya')
    const old = (await cookieNamed(context, 'lend_acme'))?.value
    await signOut(page)
    expect(await me(page)).toBe(401)
    expect(await cookieNamed(context, 'lend_acme')).toBe(undefined)
    const again = await fetch(lend.at('/api/me'), { headers: { cookie: `lend_acme=${old}` } })
    expect(again.status).toBe(401)
    // The next one at this browser has to say who they are.
    await page.getByRole('link', { name: 'Sign in', exact: true }).click()
    await seen(page.getByRole('button', { name: nameOf('omar') }))
  })

  it('ends it in the agent app too: what was said there is not open to the next one', async () => {
    const { context, page } = await openAs('maya')
    const id = await startSession(lend, page)
    await seen(card(page, '3 things'))
    const old = (await cookieNamed(context, 'lend_app_acme'))?.value
    await signOut(page)
    expect(await cookieNamed(context, 'lend_app_acme')).toBe(undefined)
    const run = await fetch(`${lend.url}/app/t/acme/api/runs/${id}`, {
      headers: { cookie: `lend_app_acme=${old}` },
    })
    expect(run.status).toBe(401)
  })
})

describe('another site’s page', () => {
  const at = (host: string) => {
    const address = elsewhere.address()
    return `http://${host}:${typeof address === 'object' ? address?.port : ''}/`
  }

  it('B30 cannot write with the person’s cookie: not by fetch of any type, and not by a form', async () => {
    const { page } = await openAs('maya')
    const id = await startSession(lend, page)
    await seen(card(page, '3 things'))
    const end = lend.at(`/api/sessions/${id}/end`)
    const out = lend.at('/auth/logout')
    const stop = `${lend.url}/app/t/acme/api/runs/${id}/stop`
    const maya = await lend.as('maya')
    const refused: string[] = []
    const follow = (answer: Response) => {
      if (answer.request().method() === 'POST') refused.push(`${answer.status()}`)
    }
    page.on('response', follow)
    // On this machine another port is another origin of the same site, so that the browser does send the cookie.
    for (const host of ['localhost', '127.0.0.1']) {
      await page.goto(at(host))
      for (const url of [end, out, stop])
        for (const type of ['text/plain', 'application/json', 'application/x-www-form-urlencoded'])
          await page.evaluate(`fetch('${url}', { method: 'POST', credentials: 'include',
            mode: '${type === 'application/json' ? 'cors' : 'no-cors'}',
            headers: { 'content-type': '${type}' }, body: '{}' }).catch(() => undefined)`)
      for (const url of [end, out, stop]) {
        await page.goto(at(host))
        await page.evaluate(`(() => {
          const form = document.createElement('form')
          form.method = 'post'; form.enctype = 'text/plain'; form.action = '${url}'
          document.body.append(form); form.submit() })()`)
        await page.waitForURL(url)
      }
    }
    page.off('response', follow)
    expect(refused.length).toBeGreaterThanOrEqual(12)
    expect(refused.filter((one) => !/^4\d\d$/.test(one))).toEqual([])
    expect(refused).toContain('403')
    // She is still signed in, the session lives and its agent still waits.
    await page.goto(lend.at(`/sessions/${id}`))
    await seen(card(page, '3 things'))
    await seen(page.locator('header.chat-head').getByText('Waiting for you'))
    expect(await maya.statusOf('GET', `/sessions/${id}`)).toBe(200)
    expect(await me(page)).toBe(200)
  })

  it('B30 can read nothing with it and cannot put Lend into a frame', async () => {
    const { page } = await openAs('maya')
    await page.goto(at('localhost'))
    const read = await page.evaluate(
      `fetch('${lend.at('/api/me')}', { credentials: 'include' })
        .then((answer) => answer.text(), () => 'nothing')`,
    )
    expect(read).toBe('nothing')
    await page.evaluate(`new Promise((done) => {
      const frame = document.createElement('iframe')
      frame.src = '${lend.at('/approvals')}'; frame.onload = done; document.body.append(frame) })`)
    const framed = page.frames().find((one) => one !== page.mainFrame())
    expect(await framed?.locator('#root').count()).toBe(0)
  })
})

describe('tokens that are not a person’s own', () => {
  it('I6 a stolen session token opens nothing here, as bearer or as cookie', async () => {
    const session = await app.start()
    await session.ask({ items: [{ permission: 'accounts:read' }] })
    const stolen = session.token().access_token
    const maya = await lend.as('maya')
    const paths = [
      '/me',
      '/sessions',
      '/access-requests?status=pending',
      '/rules',
      '/events',
      '/activity',
      `/sessions/${session.id}/access`,
    ]
    for (const path of paths) {
      const asBearer = await fetch(lend.at(`/api${path}`), {
        headers: { authorization: `Bearer ${stolen}` },
      })
      const asCookie = await fetch(lend.at(`/api${path}`), {
        headers: { cookie: `lend_acme=${stolen}` },
      })
      const statuses = [asBearer.status, asCookie.status]
      await asBearer.body?.cancel()
      await asCookie.body?.cancel()
      expect([path, ...statuses]).toEqual([path, 401, 401])
    }
    expect(await maya.statusOf('GET', '/me')).toBe(200)
  })

  it('I6 the token that the app may exchange is useless for answering', async () => {
    const token = await lend.token('maya', 'app')
    const answer = await fetch(lend.at('/api/access-requests?status=pending'), {
      headers: { authorization: `Bearer ${token}` },
    })
    expect([401, 403]).toContain(answer.status)
  })

  it('I18 no token ever reaches the browser: not in an answer, an address or the page', async () => {
    const window = await open()
    const { page, context } = window
    const leaks: string[] = []
    const reading: Promise<void>[] = []
    context.on('response', (answer) => {
      const url = answer.url()
      if (/eyJ[\w-]{20,}\.eyJ/.test(url)) leaks.push(url)
      const { pathname } = new URL(url)
      if (pathname.startsWith('/demo/idp') || pathname.endsWith('/events')) return
      reading.push(
        answer
          .text()
          .then((text) => {
            if (/eyJ[\w-]{20,}\.eyJ|refresh_token|access_token/.test(text)) leaks.push(url)
          })
          // A redirect has no text.
          .catch(() => undefined),
      )
    })
    await signIn(lend, page)
    await startSession(lend, page)
    await seen(card(page, '3 things'))
    await Promise.all(reading)
    expect(reading.length).toBeGreaterThan(8)
    expect(leaks).toEqual([])
  })
})

describe('what every page of Lend is sent with', () => {
  it('a policy that allows scripts of this origin alone, no frames, and nothing inline', async () => {
    for (const path of ['/', '/t/acme/sessions', '/t/acme/approvals/req_x', '/t/acme/rules']) {
      const answer = await fetch(`${lend.url}${path}`)
      const policy = answer.headers.get('content-security-policy') ?? ''
      const html = await answer.text()
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("script-src 'self'")
      expect(policy).toContain("style-src 'self'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).toContain("base-uri 'none'")
      expect(policy).not.toMatch(/unsafe|\*|https?:/)
      expect(html).not.toMatch(/<script(?![^>]*\ssrc=)/)
      expect(html).not.toMatch(/<style|\son\w+=/)
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
    }
  })

  it('a script that got in all the same would not run', async () => {
    const { page } = await openAs('maya')
    await page.evaluate(`(() => {
      const script = document.createElement('script')
      script.textContent = 'window.ran = true'
      document.body.append(script)
      document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = true">') })()`)
    await eventually(
      () => page.evaluate('document.images.length > 0 && document.images[0].complete'),
      true,
    )
    expect(await page.evaluate('window.ran === undefined')).toBe(true)
  })
})
