import type { Browser } from 'playwright-core'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import {
  ALLOW_ONCE,
  card,
  chatOf,
  eventually,
  paneOf,
  press,
  seen,
  settledCards,
  signedIn,
  startSession,
  type Window,
  waitingIn,
} from './support/person.ts'

/**
 * A request that nobody answers in time. How long one waits is set by no public door yet, so it is written into a database
 * of the test’s own.
 */
const WAIT_SECONDS = 15

describe.skipIf(postgresIsLeftOut)('an expired request', () => {
  let database: Scratch
  let lend: Lend
  let browser: Browser
  let window: Window

  showFailures(() => ({ browser, lend }))

  beforeAll(async () => {
    database = await scratchDatabase()
    ;[lend, browser] = await Promise.all([
      Lend.start({ DATABASE_URL: database.url }),
      openBrowser(),
    ])
    const sql = postgres(database.url, { max: 1 })
    const limits = JSON.stringify({ requestWaitSeconds: WAIT_SECONDS })
    await sql`update enablement set limits = ${limits}::text::jsonb
      where template_id = (select id from template where name = 'renewal-briefs')`
    await sql.end()
    window = await signedIn(browser, lend)
  })
  afterAll(async () => {
    await browser?.close()
    await lend?.stop()
    await database?.drop()
  })

  it('U14, B14 counts down, ends by itself as expired and not as denied, and is announced beforehand', async () => {
    const { page } = window
    await startSession(lend, page)
    const asks = card(page, '3 things')
    await seen(asks)
    await seen(asks.getByText(/^ends in 0:\d\d$/))
    await eventually(
      () => page.locator('[data-announcer="assertive"]').textContent(),
      'The request of Renewal assistant ends in less than 60 seconds.',
    )
    const done = settledCards(page).first()
    await seen(done.getByText('Renewal assistant: the request expired'))
    expect(await done.getByText('Expired, not answered').count()).toBe(3)
    expect(await done.getByText('Denied by you').count()).toBe(0)
    await done.getByText('Why?').first().click()
    await seen(done.getByText('Nobody answered in time. That is not a no'))
    await eventually(() => waitingIn(page), 0)
  })

  it('the agent is told the same: it does without and says why', async () => {
    const { page } = window
    await seen(chatOf(page).getByText(/I went without the accounts: nobody answered in time\./))
    await seen(paneOf(page).getByRole('region', { name: 'Asked and not given' }))
  })

  it('U14, B14 an answer that arrives after the end is no error', async () => {
    const { page } = window
    const app = await lend.secondApp()
    const session = await app.start()
    await page.goto(lend.at(`/sessions/${session.id}`))
    // The line is cut, and so is the page’s own look, so that the card stays open past its end.
    await page.route('**/api/events*', (route) => route.abort())
    await session.ask({ items: [{ permission: 'accounts:read' }] })
    await page.reload()
    const asks = card(page, '1 thing')
    await seen(asks)
    let held = true
    await page.route('**/decision', async (route) => {
      await eventually(() => page.evaluate(nowIsAfter(asked)), true)
      held = false
      await route.continue()
    })
    const asked = Date.now() + (WAIT_SECONDS + 2) * 1000
    await press(asks, ALLOW_ONCE)
    await eventually(() => held, false)
    await seen(settledCards(page).getByText('Expired, not answered'))
    expect(await page.getByText('Your answer was not taken.').count()).toBe(0)
    expect(window.watch.problems).toEqual([])
  })
})

const nowIsAfter = (millis: number): string => `Date.now() > ${millis}`
