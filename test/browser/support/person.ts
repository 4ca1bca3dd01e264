import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import type { Lend } from './lend.ts'

/** What a person sees and presses, by the names that they and their screen reader go by. */

/** Enough for a loaded machine; nothing waits longer than it must. */
export const PATIENCE = 45_000

const NAMES: Readonly<Record<string, string>> = {
  maya: 'Maya Ortiz',
  omar: 'Omar Haddad',
  adam: 'Adam Novak',
  cleo: 'Cleo Brandt',
  gus: 'Gus Lindqvist',
  bo: 'Bo Tanaka',
  rhea: 'Rhea Okafor',
  ines: 'Ines Duarte',
}
export const nameOf = (login: string): string => NAMES[login] ?? login

/** Waits until `read` gives `wanted`. */
export const eventually = <T>(read: () => T | Promise<T>, wanted: unknown): Promise<void> =>
  expect.poll(read, { timeout: PATIENCE, interval: 100 }).toEqual(wanted)

export const seen = (what: Locator): Promise<void> =>
  what.first().waitFor({ state: 'visible', timeout: PATIENCE })
export const gone = (what: Locator): Promise<void> =>
  what.first().waitFor({ state: 'hidden', timeout: PATIENCE })

/** What no page may ever have: an error of its script, or something that its policy had to stop. */
export class Watch {
  readonly problems: string[] = []

  page(page: Page): void {
    page.on('pageerror', (error) => this.problems.push(`${page.url()}: ${error.message}`))
    page.on('console', (message) => {
      const text = message.text()
      // A refused or lost request is the page's to tell, and the browser says so too.
      if (message.type() !== 'error' || /Failed to load resource|net::ERR/.test(text)) return
      this.problems.push(`${page.url()}: ${text}`)
    })
  }
}

export type Window = {
  readonly context: BrowserContext
  readonly page: Page
  readonly watch: Watch
}

/** A browser of somebody's own: nothing is shared with any other. */
export async function openWindow(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<Window> {
  const context = await browser.newContext({
    viewport: { width: 1360, height: 900 },
    reducedMotion: 'reduce',
    locale: 'en-GB',
    ...options,
  })
  context.setDefaultTimeout(PATIENCE)
  const watch = new Watch()
  context.on('page', (page) => watch.page(page))
  return { context, watch, page: await context.newPage() }
}

export type Who = { readonly login?: string; readonly tenant?: string; readonly at?: string }

/** Signs in as a person does: the page's button, the provider's page, and back where one was. */
export async function signIn(lend: Lend, page: Page, who: Who = {}): Promise<void> {
  const { login = 'maya', tenant = 'acme', at = '/sessions' } = who
  await page.goto(lend.at(at, tenant))
  await page.getByRole('link', { name: 'Sign in', exact: true }).click()
  await page.getByRole('button', { name: nameOf(login) }).click()
  await page.waitForURL(lend.at(at, tenant))
  await seen(page.getByRole('link', { name: 'Lend, sessions' }))
}

export async function signedIn(
  browser: Browser,
  lend: Lend,
  who: Who & BrowserContextOptions = {},
): Promise<Window> {
  const { login, tenant, at, ...options } = who
  const window = await openWindow(browser, options)
  await signIn(lend, window.page, {
    ...(login === undefined ? {} : { login }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(at === undefined ? {} : { at }),
  })
  return window
}

export const TASK = 'Prepare renewal briefs for my accounts that renew this quarter'
export type Mode = 'Ask' | 'Auto' | 'Bypass'

/** Starts a session from the message box and answers with its id. */
export async function startSession(
  lend: Lend,
  page: Page,
  of: { readonly task?: string; readonly mode?: Mode; readonly tenant?: string } = {},
): Promise<string> {
  await page.goto(lend.at('/sessions', of.tenant))
  await page.getByRole('textbox', { name: 'Task' }).fill(of.task ?? TASK)
  if (of.mode !== undefined) await page.getByRole('radio', { name: of.mode }).check({ force: true })
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.waitForURL(/\/sessions\/ses_/)
  return sessionIn(page)
}

export const sessionIn = (page: Page): string => /ses_[A-Za-z0-9]+/.exec(page.url())?.[0] ?? ''

/** The conversation. */
export const chatOf = (page: Page): Locator => page.getByRole('log', { name: 'Conversation' })

/** A request that waits, by how its heading goes on after “asks for”. */
export const card = (page: Page, things?: string): Locator =>
  page.locator('article[data-status="pending"]').filter({
    has: page.getByRole('heading', {
      name: things === undefined ? /asks for/ : `asks for ${things}`,
    }),
  })

export const settledCards = (page: Page): Locator => page.locator('article[data-status="settled"]')

/** The three answers as a screen reader names them. Pressing one waits until it is armed. */
export const DENY = /^Deny( all| the rest)? it goes on without/
export const ALLOW_ONCE = /^Allow once…? this session only/
export const ALWAYS = /^Always allow… not asked next time/

export const answerButton = (of: Locator, name: RegExp): Locator => of.getByRole('button', { name })

export async function press(of: Locator, name: RegExp | string): Promise<void> {
  const button = of.getByRole('button', typeof name === 'string' ? { name, exact: true } : { name })
  await button.click()
}

/** Allows all of an ordinary card always: the second step included. */
export async function allowAlways(of: Locator): Promise<void> {
  await press(of, ALWAYS)
  await press(of, 'Save rule and allow')
}

/** The access pane. */
export const paneOf = (page: Page): Locator =>
  page.getByRole('complementary', { name: 'Session access' })

/** How many permissions the session of the pane holds by itself. */
export const heldCount = async (page: Page): Promise<number> =>
  Number(await paneOf(page).locator('[data-held]').getAttribute('data-held'))

/** The permissions of the pane's session itself, without its subagents. */
export const heldIn = (page: Page): Promise<string[]> =>
  paneOf(page)
    .getByRole('region', { name: 'Holds now' })
    .locator('li[data-permission]')
    .evaluateAll((all) => all.map((one) => one.getAttribute('data-permission') ?? ''))
    .then((all) => all.toSorted())

export const textOf = async (what: Locator): Promise<string> =>
  // biome-ignore lint/performance/useDomNodeTextContent: what is seen, one line after the other.
  (await what.innerText()).replace(/\s+/g, ' ').trim()

/** How many requests the tab’s title says are waiting. */
export const waitingIn = async (page: Page): Promise<number> =>
  Number(/^\((\d+)\) .*Lend$/.exec(await page.title())?.[1] ?? 0)
