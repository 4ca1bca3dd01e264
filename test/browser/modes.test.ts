import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { session as sessionShape } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { endAll, Lend, type SecondApp } from './support/lend.ts'
import {
  ALLOW_ONCE,
  ALWAYS,
  answerButton,
  card,
  chatOf,
  DENY,
  eventually,
  heldIn,
  paneOf,
  press,
  seen,
  settledCards,
  signedIn,
  startSession,
  TASK,
  textOf,
  type Window,
} from './support/person.ts'

const anySessions = z.looseObject({ items: z.array(z.unknown()) })
const PRICING = { permission: 'contracts.fields:pricing' }

let lend: Lend
let browser: Browser
let app: SecondApp
let maya: Window

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  app = await lend.secondApp()
  maya = await signedIn(browser, lend)
})
afterEach(async () => {
  await endAll(lend, 'maya')
  expect(maya.watch.problems).toEqual([])
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

const modeOf = async (id: string): Promise<string> =>
  (await (await lend.as('maya')).get(`/sessions/${id}`, sessionShape)).mode

describe('mode Ask', () => {
  it('everything that no rule answers is asked, low risk too', async () => {
    const { page } = maya
    const id = await startSession(lend, page, { mode: 'Ask' })
    await seen(card(page, '3 things'))
    expect(await modeOf(id)).toBe('ask')
    expect(await heldIn(page)).toEqual([])
  })
})

describe('mode Auto', () => {
  it('grants what is low risk without asking, and asks for the rest on one card', async () => {
    const { page } = maya
    const id = await startSession(lend, page, { mode: 'Auto' })
    expect(await modeOf(id)).toBe('auto')
    const asks = card(page, '1 thing')
    await seen(asks)
    expect(await textOf(asks.locator('li[data-permission]'))).toContain('Accounts in my region')
    const settled = asks.getByRole('list', { name: 'Settled without asking you' })
    expect(await settled.getByText('Granted by mode Auto').count()).toBe(2)
    await eventually(() => heldIn(page), ['accounts:read', 'dashboard:view'])
    const held = paneOf(page).locator('li[data-permission="accounts:read"]').first()
    expect(await textOf(held)).toContain('Mode')
  })
})

describe('mode Bypass', () => {
  it('B33, I8 grants what is not sensitive; the sensitive item is asked, has no Always and a second step', async () => {
    const { page } = maya
    const id = await startSession(lend, page, { mode: 'Bypass' })
    expect(await modeOf(id)).toBe('bypass')
    await seen(
      page.getByText(/Bypass: granted without asking, except what is sensitive\. .+ left\./),
    )
    const asks = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await seen(asks)
    await eventually(
      () => heldIn(page),
      ['accounts.rows:my_region', 'accounts:read', 'dashboard:view'],
    )
    expect(await settledCards(page).getByText('Granted by mode Bypass').count()).toBe(4)
    expect(await answerButton(asks, ALWAYS).count()).toBe(0)
    expect(await answerButton(asks, DENY).count()).toBe(1)

    await press(asks, ALLOW_ONCE)
    await seen(
      asks.getByRole('heading', {
        name: 'Sensitive: let Renewal assistant have it in this session?',
      }),
    )
    await seen(asks.getByText('This is never remembered: you are asked every time.'))
    const child = paneOf(page).getByRole('region', { name: 'Subagents' })
    const held = child.locator(`li[data-permission="${PRICING.permission}"]`)
    expect(await held.count()).toBe(0)
    await press(asks, 'Allow once')
    await seen(held)
    await seen(chatOf(page).getByText('The renewal briefs are ready.'))
  })

  it('B33 Always is absent for a sensitive item in every mode', async () => {
    const { page } = maya
    for (const mode of ['ask', 'auto', 'bypass'] as const) {
      const session = await app.start({ mode })
      await session.ask({ items: [PRICING] })
      await page.goto(lend.at(`/sessions/${session.id}`))
      const asks = card(page, '1 thing')
      await seen(asks)
      expect([mode, await asks.getByText('Always').count()]).toEqual([mode, 0])
      await asks.getByRole('button', { name: 'Details' }).click()
      await seen(asks.getByText('In the data service, row by row and field by field'))
    }
  })
})

describe('changing the mode', () => {
  it('I7 it can be tightened in place; a looser one is off and says that it needs a new session', async () => {
    const { page } = maya
    const session = await app.start({ mode: 'auto' })
    await page.goto(lend.at(`/sessions/${session.id}`))
    await paneOf(page).getByLabel('Mode: Auto. Change').click()
    const looser = paneOf(page).getByRole('button', { name: /^Bypass Looser than now/ })
    expect(await looser.isDisabled()).toBe(true)
    await paneOf(page)
      .getByRole('button', { name: /^Tighten to Ask/ })
      .click()
    await seen(page.getByText('Mode is now Ask. What is held stays held.'))
    await seen(paneOf(page).getByLabel('Mode: Ask. Change'))
    expect(await modeOf(session.id)).toBe('ask')
    await session.ask({ items: [{ permission: 'accounts:read' }] })
    await seen(card(page, '1 thing'))
  })
})

describe('an organisation that has turned Bypass off', () => {
  it('B19, U19, I15 Bypass is refused, then off with words that say who turned it off; Ask still starts', async () => {
    const gus = await signedIn(browser, lend, { login: 'gus', tenant: 'globex' })
    const { page } = gus
    await page.getByRole('textbox', { name: 'Task' }).fill(TASK)
    const bypass = page.getByRole('radio', { name: /^Bypass/ })
    // Where it is known beforehand it is off from the start; else the server says so.
    if (await bypass.isEnabled()) {
      await bypass.check({ force: true })
      await page.getByRole('button', { name: 'Start', exact: true }).click()
      await seen(page.getByText(/^Bypass is turned off by your organisation/))
    }
    await seen(page.getByText('Turned off by your organisation', { exact: true }))
    expect(await bypass.isDisabled()).toBe(true)
    const api = await lend.as('gus', 'globex')
    expect((await api.get('/sessions', anySessions)).items).toEqual([])
    expect(await page.getByRole('textbox', { name: 'Task' }).inputValue()).toBe(TASK)
    await page.getByRole('radio', { name: 'Ask' }).check({ force: true })
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.waitForURL(/\/t\/globex\/sessions\/ses_/)
    await seen(card(page))
    expect(gus.watch.problems).toEqual([])
    await gus.context.close()
  })
})
