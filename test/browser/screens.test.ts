import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { type AppSession, endAll, Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import {
  ALLOW_ONCE,
  ALWAYS,
  answerButton,
  card,
  chatOf,
  DENY,
  eventually,
  nameOf,
  openWindow,
  press,
  seen,
  signedIn,
  startSession,
  type Window,
} from './support/person.ts'

/** Every screen in both themes, wide and on a phone: what axe says, no sideways scroll, and a picture for people. */

let lend: Lend
let browser: Browser
let maya: Window
let omar: Window
let stranger: Window
const ids = { waiting: '', ended: '', bypass: '', settled: '', request: '', decided: '' }
let mixed: AppSession

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  const app = await lend.secondApp()
  ;[maya, omar, stranger] = [
    await signedIn(browser, lend),
    await signedIn(browser, lend, { login: 'omar' }),
    await openWindow(browser),
  ]
  const { page } = maya
  // One of another app with a card that has everything on it.
  mixed = await app.start({ task: 'Prepare the briefs and send one to our largest customer' })
  const asked = await mixed.ask({
    items: [
      { permission: 'accounts:read' },
      { permission: 'email-templates:write' },
      { permission: 'email:send', resource: 'domain/a-rather-long-name.customer.example' },
      { permission: 'contracts.fields:pricing' },
      { permission: 'dashboard:view', resource: 'dashboard/q4-forecast' },
      {
        permission: 'accounts.rows:my_region',
        narrow: { $and: [{ renewal_in_days: { $lte: 90 } }, { segment: { $in: ['large'] } }] },
      },
    ],
    reason: 'To prepare the briefs, with their prices, and to send one of them to the customer.',
  })
  ids.waiting = mixed.id
  ids.request = asked.request_id ?? ''
  // One that has ended, with a denial and a rule on its way.
  ids.ended = await startSession(lend, page)
  await press(card(page, '3 things'), ALWAYS)
  await press(card(page), 'Save rule and allow')
  await press(card(page, '1 thing').filter({ hasText: 'Email templates' }), ALLOW_ONCE)
  await press(card(page, '1 thing').filter({ hasText: 'Contract pricing' }), DENY)
  await seen(chatOf(page).getByText('The renewal briefs are ready.'))
  const api = await lend.as('maya')
  expect(await api.statusOf('POST', `/sessions/${ids.ended}/end`, {})).toBe(200)
  // One in bypass, whose subagent waits.
  ids.bypass = await startSession(lend, page, { mode: 'Bypass' })
  await seen(card(page, '1 thing').filter({ hasText: 'Contract pricing' }))
  const over = await app.start({ login: 'omar' })
  const done = await over.ask({ items: [{ permission: 'accounts:read' }] })
  ids.decided = done.request_id ?? ''
  await omar.page.goto(done.review_url ?? '')
  await press(card(omar.page), DENY)
  await seen(omar.page.getByText('You can close this page.'))
  await endAll(lend, 'omar')
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

type Screen = {
  readonly who: () => Window
  /** Goes there and waits until it is whole. */
  readonly open: (page: Page) => Promise<void>
  /** What axe cannot judge there. */
  readonly without?: readonly string[]
}

const at =
  (path: () => string, shows: (page: Page) => ReturnType<Page['getByText']>) =>
  async (page: Page) => {
    await page.goto(path())
    await seen(shows(page))
  }
const t = (path: string) => () => lend.at(path)
const text = (words: string | RegExp) => (page: Page) => page.getByText(words)
const ofMaya = () => maya
const ofOmar = () => omar
const ofNobody = () => stranger

const openCard = async (page: Page) => {
  await page.goto(lend.at(`/approvals/${ids.request}`))
  const asks = card(page)
  await seen(asks)
  await eventually(() => answerButton(asks, DENY).getAttribute('aria-disabled'), 'false')
  return asks
}

const SCREENS: Readonly<Record<string, Screen>> = {
  landing: {
    who: ofNobody,
    open: at(() => `${lend.url}/`, text('Choose your organisation')),
  },
  'sign-in': { who: ofNobody, open: at(t('/sessions'), text('Sign in to Acme')) },
  provider: {
    who: ofNobody,
    open: at(t('/auth/login'), text('to continue to')),
  },
  'sign-in-over': {
    who: ofNobody,
    open: at(t('/auth/callback?state=x&code=y'), text('This sign-in is over')),
  },
  'new-session': {
    who: ofMaya,
    open: at(t('/sessions'), (page) => page.getByRole('textbox', { name: 'Task' })),
  },
  'new-session-first': {
    who: ofOmar,
    open: at(t('/sessions'), (page) => page.getByRole('textbox', { name: 'Task' })),
  },
  'session-waiting': {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at(`/sessions/${ids.waiting}`))
      await seen(card(page))
    },
  },
  'session-bypass-subagent': {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at(`/sessions/${ids.bypass}`))
      await seen(card(page))
    },
  },
  'session-ended': {
    who: ofMaya,
    open: at(() => lend.at(`/sessions/${ids.ended}`), text('The renewal briefs are ready.')),
  },
  'session-gone': {
    who: ofOmar,
    open: at(() => lend.at(`/sessions/${ids.ended}`), text('There is no such session')),
  },
  approvals: {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at('/approvals'))
      await eventually(() => card(page).count(), 2)
    },
  },
  'approvals-none': {
    who: ofOmar,
    open: at(t('/approvals'), text('Nothing is waiting for you')),
  },
  'approval-details': {
    who: ofMaya,
    open: async (page) => {
      const asks = await openCard(page)
      await press(asks, 'Details')
      await seen(asks.getByText('Exact filter'))
    },
  },
  'approval-always': {
    who: ofMaya,
    open: async (page) => {
      const asks = await openCard(page)
      await press(asks, ALWAYS)
      await seen(asks.getByText('Rule lasts'))
    },
  },
  'approval-deny': {
    who: ofMaya,
    open: async (page) => {
      const asks = await openCard(page)
      await press(asks, 'Deny with a note…')
      await seen(asks.getByText('Always deny this for this template'))
    },
  },
  'approval-items': {
    who: ofMaya,
    open: async (page) => {
      const asks = await openCard(page)
      await press(asks, 'Choose per item')
      await seen(asks.getByText('Choose for every item.'))
    },
  },
  'approval-settled': {
    who: ofOmar,
    open: at(() => lend.at(`/approvals/${ids.decided}`), text('Denied by you')),
  },
  'approval-gone': {
    who: ofOmar,
    open: at(() => lend.at(`/approvals/${ids.request}`), text('There is no such request')),
  },
  rules: {
    who: ofMaya,
    open: at(t('/rules'), (page) => page.getByRole('row').filter({ hasText: 'Dashboard' })),
  },
  'rules-none': { who: ofOmar, open: at(t('/rules'), text('No rules')) },
  'rules-new': {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at('/rules'))
      await press(page.getByRole('main'), 'New rule')
      const form = page.getByRole('form', { name: 'New rule' })
      await form.getByLabel('Permission').selectOption({ label: 'Dashboard · View' })
      await seen(form.getByLabel('On what'))
    },
  },
  agents: {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at('/agents'))
      await seen(page.locator(`[data-session="${ids.bypass}"]`).getByText('Dashboard · View'))
    },
  },
  'agents-none': { who: ofOmar, open: at(t('/agents'), text('No agent works for you now')) },
  'agents-end-all': {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at('/agents'))
      await press(page.getByRole('main'), 'End all sessions')
      await seen(page.getByRole('dialog'))
    },
  },
  'account-menu': {
    who: ofMaya,
    open: async (page) => {
      await page.goto(lend.at('/approvals'))
      await page.getByLabel(`${nameOf('maya')}: account and appearance`).click()
      await seen(page.getByRole('button', { name: 'Sign out' }))
    },
  },
}

const topOf = async (what: Locator): Promise<number> =>
  (await what.boundingBox())?.y ?? Number.NEGATIVE_INFINITY

const WIDE = { width: 1360, height: 900 }
const PHONE = { width: 360, height: 740 }
const NARROW = { width: 320, height: 640 }

describe('B27, B28, B34 every screen', () => {
  for (const [name, { who, open, without }] of Object.entries(SCREENS))
    it(`${name}: axe finds nothing serious in light and dark, and nothing lies beside a phone of 360 or 320 px`, async () => {
      const { page } = who()
      const wrong: string[] = []
      for (const size of [WIDE, PHONE]) {
        await page.setViewportSize(size)
        await open(page)
        for (const theme of THEMES) {
          await page.emulateMedia({ colorScheme: theme })
          await picture(page, `${name}-${theme}-${size.width}`)
          for (const one of await findingsOf(page, without))
            wrong.push(`${theme} ${size.width}: ${one}`)
        }
        if (size !== PHONE) continue
        for (const one of await wideIn(page)) wrong.push(`360: ${one}`)
        await page.setViewportSize(NARROW)
        for (const one of await wideIn(page)) wrong.push(`320: ${one}`)
      }
      await page.setViewportSize(WIDE)
      expect(wrong).toEqual([])
    })

  it('on a phone sessions, chat and access are one tap apart, and none of them is wider than it', async () => {
    const { page } = maya
    const wrong: string[] = []
    for (const size of [PHONE, NARROW]) {
      await page.setViewportSize(size)
      await page.goto(lend.at(`/sessions/${ids.bypass}`))
      const tabs = page.getByRole('navigation', { name: 'Panes' })
      for (const [tab, shows] of [
        ['Sessions', page.getByRole('navigation', { name: 'Sessions' })],
        [/^Access/, page.getByRole('complementary', { name: 'Session access' })],
        ['Chat', page.getByRole('log', { name: 'Conversation' })],
      ] as const) {
        await tabs.getByRole('button', { name: tab }).click()
        await seen(shows)
        // What waits is in sight again, not where the conversation began.
        if (tab === 'Chat') {
          expect(await topOf(card(page).first())).toBeGreaterThan(0)
          expect(await topOf(card(page).first())).toBeLessThan(size.height / 2)
        }
        for (const one of await wideIn(page)) wrong.push(`${String(tab)} ${size.width}: ${one}`)
        for (const theme of THEMES) {
          await page.emulateMedia({ colorScheme: theme })
          if (size === PHONE)
            await picture(page, `phone-${String(tab).replace(/\W/g, '')}-${theme}-360`)
          for (const one of await findingsOf(page)) wrong.push(`${String(tab)} ${theme}: ${one}`)
        }
      }
      await seen(tabs.getByText('2 requests waiting'))
      await page.emulateMedia({ colorScheme: 'light' })
      await tabs.getByRole('button', { name: /^Access/ }).click()
      await page.getByLabel('Mode: Bypass. Change').click()
      await seen(page.getByRole('button', { name: /^Tighten to Ask/ }))
      for (const one of await wideIn(page)) wrong.push(`mode menu ${size.width}: ${one}`)
      if (size === PHONE) await picture(page, 'phone-mode-menu-light-360')
    }
    await page.setViewportSize(WIDE)
    expect(wrong).toEqual([])
  })

  it('a chosen theme holds over a reload, whatever the system’s is', async () => {
    const { page } = omar
    await page.emulateMedia({ colorScheme: 'light' })
    await page.goto(lend.at('/rules'))
    await page.getByLabel(`${nameOf('omar')}: account and appearance`).click()
    await page.getByText('Dark', { exact: true }).click()
    await page.reload()
    await seen(page.getByRole('heading', { name: 'Rules' }))
    const dark = 'getComputedStyle(document.documentElement).colorScheme'
    expect(await page.evaluate(dark)).toBe('dark')
  })

  it('no page of any of them had a script error or anything that its policy had to stop', () => {
    for (const one of [maya, omar, stranger]) expect(one.watch.problems).toEqual([])
  })
})
