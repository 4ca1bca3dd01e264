import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { access, rules, session } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { Lend, takeDashboard } from './support/lend.ts'
import {
  ALLOW_ONCE,
  ALWAYS,
  allowAlways,
  answerButton,
  card,
  chatOf,
  DENY,
  eventually,
  heldCount,
  heldIn,
  paneOf,
  press,
  seen,
  settledCards,
  signedIn,
  startSession,
  textOf,
  type Window,
} from './support/person.ts'

/** Journeys 2 and 3 of the seed, played by clicking. Each step stands on the one before. */

const THREE = ['accounts.rows:my_region', 'accounts:read', 'dashboard:view']
const TWO = ['accounts.rows:my_region', 'accounts:read']

let lend: Lend
let browser: Browser
let window: Window
let page: Page
let first: string

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  window = await signedIn(browser, lend)
  page = window.page
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

describe('journey 2 by clicking (B24)', () => {
  stepByStep()

  it('I1 a session from the message box starts with nothing, and says so', async () => {
    first = await startSession(lend, page)
    await seen(chatOf(page).getByText('starts with no access. It asks for what it needs.'))
    await seen(paneOf(page).getByText('The agent holds nothing.'))
    expect(await heldCount(page)).toBe(0)
    const maya = await lend.as('maya')
    expect((await maya.get(`/sessions/${first}/access`, access)).items).toEqual([])
  })

  it('B01, U10, U11 the card says who asks, why, for what, how long and within which limits', async () => {
    const asks = card(page, '3 things')
    await seen(asks)
    const text = await textOf(asks)
    expect(text).toContain('Renewal assistant asks for 3 things')
    expect(text).toContain('Renewal briefs v3')
    expect(text).toContain('for you, Maya Ortiz')
    expect(text).toMatch(/Until this session ends, at most \d+ h/)
    expect(text).toContain('Your own restrictions still apply.')
    await seen(asks.getByRole('figure').getByText(/^To find this quarter’s renewals/))
    const items = asks.locator('li[data-permission]')
    expect(
      await items.evaluateAll((all) => all.map((one) => one.getAttribute('data-permission'))),
    ).toEqual(['accounts:read', 'accounts.rows:my_region', 'dashboard:view'])
    expect(await textOf(items.nth(0))).toContain('Accounts API · Read API Low risk')
    expect(await textOf(items.nth(1))).toContain('Accounts in my region Data Medium risk')
    expect(await textOf(items.nth(2))).toContain('On dashboard/q3-pipeline')
  })

  it('B31 the three answers are of one size, and Deny is as near as Allow', async () => {
    const asks = card(page, '3 things')
    const sizes = await Promise.all(
      [DENY, ALLOW_ONCE, ALWAYS].map((name) => answerButton(asks, name).boundingBox()),
    )
    const [deny, once, always] = sizes
    expect(deny?.height).toBeGreaterThanOrEqual(44)
    expect([once?.height, always?.height]).toEqual([deny?.height, deny?.height])
    expect(Math.abs((once?.width ?? 0) - (deny?.width ?? 0))).toBeLessThan(2)
    expect(Math.abs((always?.width ?? 0) - (deny?.width ?? 0))).toBeLessThan(2)
  })

  it('B07, U6 Always first shows the rules word for word, then stores exactly those', async () => {
    const asks = card(page, '3 things')
    await press(asks, ALWAYS)
    await seen(asks.getByRole('heading', { name: 'These 3 rules will be saved' }))
    const shown = await asks.locator('pre').allInnerTexts()
    expect(shown).toEqual([
      'allow accounts:read\ntemplate renewal-briefs',
      'allow accounts.rows:my_region\ntemplate renewal-briefs',
      'allow dashboard:view\ntemplate renewal-briefs\nresource dashboard/q3-pipeline',
    ])
    await seen(asks.getByText('It never gives access you do not have'))
    const maya = await lend.as('maya')
    expect((await maya.get('/rules', rules)).items).toEqual([])
    await press(asks, 'Save rule and allow')
    await seen(chatOf(page).getByText('Renewal assistant: you allowed it'))
    const stored = (await maya.get('/rules', rules)).items.map((one) =>
      [
        `${one.effect} ${one.permission}`,
        `template ${one.template}`,
        ...(one.resource === undefined ? [] : [`resource ${one.resource}`]),
      ].join('\n'),
    )
    expect(stored.toSorted()).toEqual(shown.toSorted())
  })

  it('U7 the settled card says what became of each item, and leads to the rules', async () => {
    const done = settledCards(page).filter({ hasText: 'you allowed it' }).first()
    await eventually(() => done.getByText('Allowed by you, and a rule saved').count(), 3)
    await seen(done.getByText('3 rules saved.'))
    expect(await done.getByRole('link', { name: 'See rules' }).getAttribute('href')).toBe(
      '/t/acme/rules',
    )
  })

  it('the pane shows the three as held, by whom and since when', async () => {
    await eventually(() => heldIn(page), THREE)
    expect(await heldCount(page)).toBe(3)
    const one = paneOf(page).locator('li[data-permission="accounts:read"]').first()
    expect(await textOf(one)).toMatch(/You .*since \d\d:\d\d/)
  })

  it('U10, B11 the drafter’s card names the path, and is answered for this session only', async () => {
    const asks = card(page, '1 thing').filter({ hasText: 'Email templates · Write' })
    await seen(asks)
    const text = await textOf(asks)
    expect(text).toContain('Email drafter v1')
    // What it says in the conversation is said under its own name, with the path to it.
    const said = chatOf(page)
      .getByRole('article')
      .filter({ hasText: 'I need to save the drafts, so I am asking you.' })
    await eventually(
      () =>
        textOf(said).then((all) => all.startsWith('Email drafter Renewal briefs › Email drafter')),
      true,
    )
    expect(await textOf(asks.locator('.card-path'))).toBe(
      'Asked by, from the top: Renewal briefs Email drafter',
    )
    await press(asks, ALLOW_ONCE)
    const child = paneOf(page).getByRole('region', { name: 'Subagents' })
    const own = child.locator('li[data-permission="email-templates:write"]')
    await seen(own)
    expect(await textOf(own)).toContain('its own, stays here')
    // I9: nothing flows up.
    expect(await heldIn(page)).toEqual(THREE)
    const maya = await lend.as('maya')
    expect((await maya.get('/rules', rules)).items).toHaveLength(3)
  })

  it('I9 the pane shows what the drafter has inherited as inherited and read-only', async () => {
    const child = paneOf(page).getByRole('region', { name: 'Subagents' })
    const inherited = child.locator('li[data-permission="accounts:read"]')
    expect(await textOf(inherited)).toContain('Inherited, read-only')
  })

  it('I8, B33 contract pricing is sensitive: it has no Always, and is denied in one press', async () => {
    const asks = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await seen(asks)
    expect(await textOf(asks)).toContain('High risk Sensitive')
    expect(await answerButton(asks, ALWAYS).count()).toBe(0)
    await press(asks, DENY)
    await seen(chatOf(page).getByText('Renewal assistant: you denied it'))
  })

  it('the agent does without, and says so', async () => {
    const last = chatOf(page).getByText('The renewal briefs are ready.')
    await seen(last)
    await seen(
      chatOf(page).getByText(
        /One draft is saved as a template\. I went without the prices: you said no\./,
      ),
    )
    await seen(page.locator('header.chat-head').getByText('Idle'))
    await seen(
      paneOf(page)
        .getByRole('region', { name: 'Asked and not given' })
        .getByText('Contract pricing'),
    )
  })

  it('what adam takes from maya the agent loses, and the pane says which and why', async () => {
    await takeDashboard(lend)
    await eventually(() => heldIn(page), TWO)
    const lost = paneOf(page).getByRole('region', { name: 'Lost' })
    await seen(lost.getByText('dashboard/q3-pipeline'))
    expect(await textOf(lost)).toContain('lost, since you lost it')
    const child = paneOf(page).getByRole('region', { name: 'Subagents' })
    await eventually(() => child.locator('li[data-permission="dashboard:view"]').count(), 0)
  })

  it('I11 End session names what goes with it, then everything is given back', async () => {
    await press(paneOf(page), 'End session')
    const dialog = page.getByRole('dialog')
    await seen(dialog.getByText(/It gives back 5 permissions, and 1 subagent ends with it\./))
    await press(dialog, 'End session')
    await seen(page.getByText('2 sessions ended, 5 permissions given back.'))
    await eventually(() => heldCount(page), 0)
    await seen(paneOf(page).getByText('Everything was given back.'))
    await seen(chatOf(page).getByText(/Ended by you/))
    const maya = await lend.as('maya')
    const ended = await maya.get(`/sessions/${first}`, session.loose())
    expect(ended).toMatchObject({ status: 'ended', end_reason: 'user' })
    expect((await maya.get(`/sessions/${first}/access`, access)).items).toEqual([])
  })
})

describe('journey 3 by clicking (B25)', () => {
  stepByStep()

  let second: string

  it('B08, I10 the next session gets two by rule, without a card', async () => {
    second = await startSession(lend, page)
    expect(second).not.toBe(first)
    await eventually(() => heldIn(page), TWO)
    const done = settledCards(page).first()
    await seen(done.getByText('settled without asking you'))
    expect(await done.getByText('Granted by your rule').count()).toBe(2)
    const asked = card(page).filter({ hasText: 'Accounts' })
    expect(await asked.count()).toBe(0)
  })

  it('U7, B08 the pane names the rule that granted each', async () => {
    const maya = await lend.as('maya')
    const { items } = await maya.get('/rules', rules)
    const rule = items.find((one) => one.permission === 'accounts:read')
    const held = paneOf(page).locator('li[data-permission="accounts:read"]').first()
    await eventually(() => textOf(held).then((text) => text.includes('Your rule')), true)
    expect(await textOf(held)).toContain(String(rule?.id))
  })

  it('I2 the dashboard is refused though the rule still stands, and Why says what would change it', async () => {
    const refused = paneOf(page)
      .getByRole('region', { name: 'Asked and not given' })
      .getByRole('listitem')
      .filter({ hasText: 'Dashboard · View' })
    await seen(refused)
    expect(await textOf(refused)).toContain('Refused: you do not have it')
    const why = refused.getByText('You do not have this access yourself at the moment')
    expect(await why.isVisible()).toBe(false)
    await refused.getByText('Why?').click()
    await seen(why)
    const inChat = settledCards(page).first()
    await seen(inChat.getByText('Refused: you do not have it'))
    const maya = await lend.as('maya')
    const { items } = await maya.get('/rules', rules)
    expect(items.some((one) => one.permission === 'dashboard:view')).toBe(true)
  })

  it('the agent’s own last words say what it went without', async () => {
    const templates = card(page, '1 thing').filter({ hasText: 'Email templates · Write' })
    await seen(templates)
    await allowAlways(templates)
    const pricing = card(page, '1 thing').filter({ hasText: 'Contract pricing' })
    await seen(pricing)
    await press(pricing, DENY)
    await seen(
      chatOf(page).getByText(
        /I went without the pipeline dashboard: you do not have it yourself\./,
      ),
    )
  })

  it('no page had a script error or anything that its policy had to stop', () => {
    expect(window.watch.problems).toEqual([])
  })
})
