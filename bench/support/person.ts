import { existsSync } from 'node:fs'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { type Lend, startLend, temporaryFolder } from './lend.ts'

/** Debian's Chromium; another one is named in LEND_CHROMIUM. It runs on the load generator's core, as its parent does. */
const CHROMIUM = process.env.LEND_CHROMIUM || '/usr/bin/chromium'
const PATIENCE = 60_000

/** A person at the page of a running demo: maya of acme, in a browser of her own. */
export type Person = {
  readonly lend: Lend
  readonly browser: Browser
  readonly context: BrowserContext
  readonly page: Page
}

async function signIn(lend: Lend, page: Page): Promise<void> {
  await page.goto(`${lend.origin}/t/acme/sessions`)
  await page.getByRole('link', { name: 'Sign in', exact: true }).click()
  await page.getByRole('button', { name: 'Maya Ortiz' }).click()
  await page.getByRole('textbox', { name: 'Task' }).waitFor()
}

/** On the embedded database, which is what `npm start` gives. */
export async function withPerson<T>(body: (person: Person) => Promise<T>): Promise<T> {
  if (!existsSync(CHROMIUM))
    throw new Error(`there is no Chromium at ${CHROMIUM}: install it, or name one in LEND_CHROMIUM`)
  const { chromium } = await import('playwright-core')
  const folder = temporaryFolder()
  const lend = await startLend({ databaseUrl: null, data: folder.path })
  // The page and its programs are our own, and tests may run as root, where the sandbox does not start.
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
  })
  try {
    const context = await browser.newContext({ locale: 'en-GB' })
    context.setDefaultTimeout(PATIENCE)
    const page = await context.newPage()
    await signIn(lend, page)
    return await body({ lend, browser, context, page })
  } finally {
    await browser.close()
    await lend.stop()
    folder.remove()
  }
}
