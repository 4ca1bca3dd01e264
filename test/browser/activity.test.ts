import { readFile } from 'node:fs/promises'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { endAll, Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import {
  ALLOW_ONCE,
  ALWAYS,
  card,
  chatOf,
  DENY,
  eventually,
  gone,
  press,
  seen,
  signedIn,
  startSession,
  textOf,
  type Window,
} from './support/person.ts'

/** “What did agents access for maya last week?”, by the auditor, the admin and maya herself, in a browser. */

let lend: Lend
let browser: Browser
let cleo: Window
let maya: Window
let played = ''
let hostile = ''
let other = ''

const HOSTILE = '<img src=x onerror="document.title=1"> \u202egnirts\u202c **bold**'

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  maya = await signedIn(browser, lend)
  cleo = await signedIn(browser, lend, { login: 'cleo' })
  const { page } = maya
  played = await startSession(lend, page)
  await press(card(page, '3 things'), ALWAYS)
  await press(card(page), 'Save rule and allow')
  await press(card(page, '1 thing').filter({ hasText: 'Email templates' }), ALLOW_ONCE)
  await press(card(page, '1 thing').filter({ hasText: 'Contract pricing' }), DENY)
  await seen(chatOf(page).getByText('The renewal briefs are ready.'))
  await endAll(lend, 'maya')
  const app = await lend.secondApp()
  hostile = (await app.start({ task: HOSTILE })).id
  const session = await app.start({ login: 'omar', task: 'Briefs for omar' })
  other = session.id
  await session.ask({ items: [{ permission: 'billing:admin' }], reason: HOSTILE })
  await endAll(lend, 'omar')
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})
afterEach(() => {
  expect([...cleo.watch.problems, ...maya.watch.problems]).toEqual([])
})

const sessionIn = (page: Page, id: string) => page.locator(`article[data-session="${id}"]`)
const numberOf = (page: Page, id: string, name: string) =>
  textOf(sessionIn(page, id).locator(`[data-number="${name}"] dd`))
const list = z.looseObject({ items: z.array(z.looseObject({ id: z.string() })) })
const people = z.looseObject({
  items: z.array(z.looseObject({ id: z.string(), login: z.string() })),
})
const paramOf = (page: Page, name: string) => new URL(page.url()).searchParams.get(name)

describe('sessions', () => {
  it('the auditor asks what agents accessed for maya, in one screen: asked, decided by whom, lent, called', async () => {
    const { page } = cleo
    await page.getByRole('link', { name: 'Activity', exact: true }).click()
    await seen(sessionIn(page, other))
    await page.getByLabel('Person').fill('maya')
    await page.getByLabel('Person').press('Enter')
    await gone(sessionIn(page, other))
    const own = sessionIn(page, played)
    await seen(own)
    await seen(own.getByText('Maya Ortiz (maya)'))
    const summary = z.looseObject({
      items: z.array(
        z.looseObject({ session: z.looseObject({ id: z.string() }), asked: z.number() }),
      ),
    })
    const api = await (await lend.as('cleo')).get('/activity/sessions', summary)
    const told = api.items.find((one) => one.session.id === played)
    expect(await numberOf(page, played, 'asked')).toBe(String(told?.asked))
    expect(Number(await numberOf(page, played, 'subagents'))).toBeGreaterThan(0)
    const pricing = own.locator('tr[data-permission="contracts.fields:pricing"]')
    expect(await textOf(pricing)).toContain('by the person: denied by the person')
    expect(await textOf(own.locator('tr[data-permission="accounts:read"]'))).toContain(
      'by the person',
    )
  })

  it('a view is an address: it survives a reload, and another person sees the same', async () => {
    const { page } = cleo
    const maya = (await (await lend.as('adam')).get('/admin/users?login=maya', people)).items[0]?.id
    expect(paramOf(page, 'user')).toBe(maya)
    await page.getByLabel('Permission').selectOption('email-templates:write')
    await page.getByText('30 days').click()
    await eventually(() => paramOf(page, 'period'), '30d')
    await page.reload()
    await seen(sessionIn(page, played))
    expect(await page.getByLabel('Person').inputValue()).toBe('maya')
    expect(await page.getByLabel('Permission').inputValue()).toBe('email-templates:write')
    expect(await page.getByRole('radio', { name: '30 days' }).isChecked()).toBe(true)
    expect(await sessionIn(page, hostile).count()).toBe(0)
    await page.getByRole('button', { name: 'Clear filters' }).click()
    await seen(sessionIn(page, hostile))
  })

  it('a period with nothing in it says so, and a login that nobody has is said at its field', async () => {
    const { page } = cleo
    await page.goto(lend.at('/activity?period=custom&from=2020-01-01&to=2020-01-02'))
    await seen(page.getByText('No session matches'))
    await page.getByLabel('Person').fill('nobody-here')
    await page.getByLabel('Person').press('Enter')
    await seen(page.getByText('Nobody here has the login “nobody-here”.'))
  })

  it('maya sees her own sessions and records alone, without a field for persons', async () => {
    const { page } = maya
    await page.goto(lend.at('/activity'))
    await seen(sessionIn(page, played))
    expect(await sessionIn(page, other).count()).toBe(0)
    expect(await page.getByLabel('Person').count()).toBe(0)
    expect(await page.getByText('Organisation', { exact: true }).count()).toBe(0)
    await page.goto(lend.at(`/activity?session=${other}`))
    await seen(page.getByText('There is no such session'))
  })

  it('what an agent or person wrote is text: no element comes of it, and no letter turns the line', async () => {
    const { page } = cleo
    await page.goto(lend.at(`/activity?session=${hostile}`))
    const title = page.getByRole('heading', { level: 2 }).first()
    await seen(title)
    expect(await textOf(title)).toBe('<img src=x onerror="document.title=1"> gnirts **bold**')
    expect(await page.locator('main img').count()).toBe(0)
  })
})

describe('one session', () => {
  it('is a picture of lanes: marks for asked and decided, bars for what was held; and the same as a table', async () => {
    const { page } = cleo
    await page.goto(lend.at('/activity'))
    await sessionIn(page, played)
      .getByRole('link', { name: /^Open the timeline/ })
      .click()
    const drawn = page.getByRole('img', { name: /^Timeline of / })
    await seen(drawn)
    expect(await drawn.locator('.tl-head').count()).toBeGreaterThan(1)
    expect(await drawn.locator('.tl-asked').count()).toBeGreaterThan(1)
    expect(await drawn.locator('.tl-refused').count()).toBeGreaterThan(0)
    expect(await drawn.locator('.tl-by-user').count()).toBeGreaterThan(1)
    expect(await drawn.locator('.tl-by-inherited').count()).toBeGreaterThan(0)
    await page.locator('summary', { hasText: 'The same as a table' }).click()
    const table = page.getByRole('table', { name: 'The same as a table' })
    await seen(table.getByText('refused, by the person, denied by the person'))
    await page.getByRole('button', { name: 'Zoom in' }).click()
    await page.getByRole('button', { name: 'Zoom out' }).click()
  })

  it('its chain is verified by a button, and a record opens with the deciding layer, its place in the chain and its JSON', async () => {
    const { page } = cleo
    await page.goto(lend.at(`/activity?session=${played}`))
    await page.getByRole('button', { name: 'Verify the chain' }).click()
    await seen(page.getByText(/^The chain holds: \d+ records/))
    await page.getByRole('link', { name: 'Records', exact: true }).click()
    const decided = page.locator('tr[data-type="access.decided"]', {
      hasText: 'refused, by the person',
    })
    await decided
      .first()
      .getByRole('link', { name: /^Open: Access decided/ })
      .click()
    const drawer = page.getByRole('dialog', { name: 'Access decided' })
    await seen(drawer.getByText('The user’s answer'))
    await seen(drawer.getByText('The person was asked, and said no.'))
    await seen(drawer.getByText('Verified: its hash is that of its contents, and both links hold.'))
    await seen(drawer.getByText('"decided_by": "prompt"'))
    await drawer.getByRole('link', { name: 'The one before' }).click()
    await seen(page.getByRole('dialog'))
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await gone(page.getByRole('dialog'))
    expect(paramOf(page, 'record')).toBeNull()
  })
})

describe('records and export', () => {
  const download = async (page: Page, name: RegExp) => {
    await page.locator('summary', { hasText: 'Export' }).click()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name }).click(),
    ])
    await page.keyboard.press('Escape')
    return readFile(await file.path(), 'utf8')
  }

  it('B21 the file has exactly the records of the filter that is shown, in each of three formats', async () => {
    const { page } = cleo
    await page.goto(lend.at('/activity?view=records&type=access.decided&period=7d'))
    await seen(page.locator('tr[data-type="access.decided"]'))
    expect(await page.locator('tbody tr:not([data-type="access.decided"])').count()).toBe(0)
    const rows = await page.locator('tbody tr').count()
    const lines = (await download(page, /^NDJSON/)).trim().split('\n')
    expect(lines.length).toBe(rows)
    const known = await (await lend.as('cleo')).get('/activity?type=access.decided', list)
    const ids = z.looseObject({ id: z.string() })
    expect(lines.map((line) => ids.parse(JSON.parse(line)).id).toSorted()).toEqual(
      known.items.map((one) => one.id).toSorted(),
    )
    expect((await download(page, /^CSV/)).trim().split('\r\n').length).toBe(rows + 1)
    const ocsf = (await download(page, /^OCSF/)).trim().split('\n')
    expect(ocsf.length).toBe(rows)
    expect(ocsf[0]).toContain('class_uid')
  })

  it('on the sessions tab the file has exactly the sessions that are shown', async () => {
    const { page } = cleo
    const tree = z.looseObject({ session: z.looseObject({ id: z.string() }) })
    const trees = z.looseObject({ items: z.array(tree), next: z.string().optional() })
    const api = await lend.as('cleo')
    for (const filter of ['', 'permission=contracts.fields:pricing']) {
      await page.goto(lend.at(`/activity?${filter}`))
      await seen(page.locator('article[data-session]'))
      await gone(page.getByRole('button', { name: 'Show more' }))
      const shown = await page
        .locator('article[data-session]')
        .evaluateAll((all) => all.map((one) => one.getAttribute('data-session')))
      await page.locator('summary', { hasText: 'Export' }).click()
      await seen(page.getByText('The sessions that match these filters'))
      expect(await page.getByRole('link', { name: /^OCSF/ }).count()).toBe(0)
      for (const theme of THEMES)
        for (const width of [360, 800, 1280]) {
          await page.emulateMedia({ colorScheme: theme })
          await page.setViewportSize({ width, height: 900 })
          await picture(page, `activity-export-${theme}-${width}`)
          expect(await wideIn(page)).toEqual([])
        }
      await page.locator('summary', { hasText: 'Export' }).click()
      const lines = (await download(page, /^NDJSON/)).trim().split('\n')
      const exported = lines.map((line) => tree.parse(JSON.parse(line)))
      expect(exported.map((one) => one.session.id)).toEqual(shown)
      const listed = await api.get(`/activity/sessions?limit=50&${filter}`, trees)
      expect(exported).toEqual(listed.items)
      const csv = (await download(page, /^CSV/)).trim().split('\r\n')
      const inFile = new Set(csv.slice(1).map((row) => row.slice(1, row.indexOf('",'))))
      expect([...inFile]).toEqual(shown)
    }
  })

  it('more than a page is paged, each record once', async () => {
    const owner = await lend.as('maya')
    const made = z.looseObject({ id: z.string() })
    const rule = { template: 'email-drafter', permission: 'accounts:read', effect: 'ask' }
    for (let i = 0; i < 60; i++) {
      const { id } = await owner.send('POST', '/rules', made, rule)
      expect(await owner.statusOf('DELETE', `/rules/${id}`)).toBe(204)
    }
    const { page } = cleo
    const types = 'rule.created,rule.deleted'
    const known = await (await lend.as('cleo')).get(`/activity?type=${types}&limit=200`, list)
    expect(known.items.length).toBeGreaterThanOrEqual(120)
    await page.goto(lend.at('/activity?view=records&type=rule.created'))
    const rows = page.locator('tbody tr')
    await seen(rows.first())
    expect(await rows.count()).toBeLessThan(100)
    expect(await page.getByRole('button', { name: 'Show more' }).count()).toBe(0)
    await page.goto(lend.at('/activity?view=records'))
    await eventually(async () => (await rows.count()) > 90, true)
    expect(await rows.count()).toBe(100)
    await page.getByRole('button', { name: 'Show more' }).click()
    await eventually(async () => (await rows.count()) > 100, true)
    const ids = await rows.evaluateAll((all) => all.map((one) => one.getAttribute('data-record')))
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('when the server fails, it says so and can be tried again', async () => {
    const { page } = cleo
    await page.route('**/api/activity/sessions?**', (route) =>
      route.fulfill({
        status: 403,
        contentType: 'application/problem+json',
        body: JSON.stringify({
          type: 'about:blank',
          title: 'Forbidden',
          status: 403,
          code: 'forbidden',
          detail: 'Only some may.',
          request_id: 'r1',
        }),
      }),
    )
    await page.goto(lend.at('/activity'))
    await seen(page.getByText('You cannot see this'))
    await page.unroute('**/api/activity/sessions?**')
    await page.getByRole('button', { name: 'Refresh' }).click()
    await seen(sessionIn(page, played))
  })
})

describe('how it looks', () => {
  const SCREENS = {
    'activity sessions': () => ['/activity', 'article[data-session]'],
    'activity timeline': () => [`/activity?session=${played}`, 'main h2'],
    'activity records': () => ['/activity?view=records', 'tbody tr'],
  } as const

  for (const [name, of] of Object.entries(SCREENS))
    for (const theme of THEMES)
      it(`${name}, ${theme}: nothing for axe, nothing sideways at 360 px`, async () => {
        const { page } = cleo
        const [path = '', shows = ''] = of()
        await page.emulateMedia({ colorScheme: theme })
        for (const width of [1280, 360]) {
          await page.setViewportSize({ width, height: width === 360 ? 780 : 900 })
          await page.goto(lend.at(path))
          await seen(page.locator(shows))
          await seen(page.getByText('Live', { exact: true }))
          await picture(page, `${name} ${theme} ${width}`)
          expect(await findingsOf(page)).toEqual([])
          expect(await wideIn(page)).toEqual([])
        }
        await page.setViewportSize({ width: 1280, height: 900 })
      })

  it('a record in its drawer', async () => {
    const { page } = cleo
    await page.emulateMedia({ colorScheme: 'light' })
    await page.goto(lend.at(`/activity?session=${played}&view=records`))
    await page
      .locator('tr[data-type="access.decided"]')
      .first()
      .getByRole('link', { name: /^Open:/ })
      .click()
    await seen(page.getByRole('dialog').getByText('The record as it is stored'))
    await picture(page, 'activity record light 1280')
    expect(await findingsOf(page)).toEqual([])
    await page.setViewportSize({ width: 360, height: 780 })
    expect(await wideIn(page)).toEqual([])
    await page.setViewportSize({ width: 1280, height: 900 })
  })
})
