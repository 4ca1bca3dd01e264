import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import { eventually, gone, seen, signedIn, type Window } from './support/person.ts'

/** What builders and reviewers say to each other of a ceiling, what users will see of it, and what becomes of a version later. */

const NAME = 'stock-notes'
const at = (n: number) => `/studio/${NAME}/${n}`
const api = (n: number, more = '') => `/templates/${NAME}/versions/${n}${more}`
const WHY = 'The note names each account.'

let lend: Lend
let browser: Browser
let bo: Window
let rhea: Window

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  const draft = {
    purpose: 'Notes on accounts.',
    sponsor: 'bo',
    ceiling: [
      { permission: 'accounts:read' },
      { permission: 'contracts.fields:pricing' },
      { permission: 'dashboard:view', resource: 'dashboard/*' },
    ],
  }
  const made = { name: NAME, title: 'Stock notes', visibility: 'public', draft }
  expect(await (await lend.as('bo', 'studio')).statusOf('POST', '/templates', made)).toBe(201)
  bo = await signedIn(browser, lend, { login: 'bo', tenant: 'studio', at: at(1) })
  rhea = await signedIn(browser, lend, { login: 'rhea', tenant: 'studio', at: '/studio' })
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})
afterEach(() => {
  expect([...bo.watch.problems, ...rhea.watch.problems]).toEqual([])
})

const version = z.looseObject({
  status: z.string(),
  ceiling: z.array(z.looseObject({ permission: z.string(), justification: z.string().optional() })),
  sponsor: z.looseObject({ login: z.string().optional(), status: z.string() }).optional(),
})
const stored = async (n: number) => (await lend.as('rhea', 'studio')).get(api(n), version)
const template = z.looseObject({ sponsor_needed: z.boolean().optional() })
const comments = z.looseObject({
  items: z.array(z.looseObject({ body: z.string(), on: z.looseObject({}).optional() })),
})

const region = (page: Page, name: string): Locator =>
  page.getByRole('region', { name, exact: true })
const button = (of: Page | Locator, name: string): Locator =>
  of.getByRole('button', { name, exact: true })
const row = (page: Page, permission: string) => page.locator(`li[data-row="${permission}"]`)
const item = (page: Page, permission: string) => page.locator(`li[data-item="${permission}"]`)
const card = (page: Page) => region(page, 'What the user will see').locator('.card')
const ready = (page: Page) =>
  eventually(() => page.locator('.check-state').textContent(), ' Nothing to mend')

describe('a ceiling, row by row', () => {
  stepByStep()

  it('a builder says why the job needs an item, and it is kept', async () => {
    const { page } = bo
    const words = row(page, 'accounts:read').getByRole('textbox', { name: /^Why the job needs it/ })
    await words.fill(WHY)
    await button(page, 'Save').click()
    await seen(page.getByText('All saved'))
    expect((await stored(1)).ceiling[0]).toEqual({
      permission: 'accounts:read',
      justification: WHY,
    })
    await page.reload()
    await eventually(() => words.inputValue(), WHY)
  })

  it('sees the question that its users will see, as it changes', async () => {
    const { page } = bo
    const on = (list: string, permission: string) =>
      card(page).locator(`${list} > li[data-permission="${permission}"]`)
    await seen(on('.items:not(.items-sensitive)', 'accounts:read'))
    await seen(on('.items-sensitive', 'contracts.fields:pricing'))
    await seen(card(page).getByText('dashboard/*'))
    await seen(card(page).getByText('The agent says'))
    // Pressing answers nothing, and asks the server nothing.
    const asked: string[] = []
    page.on('request', (request) => asked.push(`${request.method()} ${request.url()}`))
    await card(page)
      .getByRole('button', { name: /^Allow once/ })
      .click()
    expect(asked.filter((one) => !one.startsWith('GET'))).toEqual([])
    await row(page, 'accounts:read').getByRole('checkbox').check()
    await seen(on('.items-sensitive', 'accounts:read'))
    await row(page, 'accounts:read').getByRole('checkbox').uncheck()
    await seen(on('.items:not(.items-sensitive)', 'accounts:read'))
  })

  it('a reviewer reads why, sees where nobody says it, and comments on a row', async () => {
    await ready(bo.page)
    await button(bo.page, 'Submit for review').click()
    await seen(button(bo.page, 'Take it out of review'))
    const { page } = rhea
    await page.goto(lend.at(at(1), 'studio'))
    await seen(item(page, 'accounts:read').getByText(WHY))
    const pricing = item(page, 'contracts.fields:pricing')
    await seen(pricing.getByText('Its builder does not say why the job needs it.'))
    await button(pricing, 'Comment on Contract pricing').click()
    await pricing.getByRole('textbox', { name: 'Comment on Contract pricing' }).fill('What for?')
    await button(pricing, 'Send').click()
    await seen(pricing.getByRole('listitem').getByText('What for?'))
    expect(await item(page, 'accounts:read').getByText('What for?').count()).toBe(0)
    await seen(region(page, 'What was said').getByText('said on Contract pricing'))
    const said = await (await lend.as('rhea', 'studio')).get(api(1, '/comments'), comments)
    expect(said.items.map((one) => [one.body, one.on])).toEqual([
      ['', undefined],
      ['What for?', { permission: 'contracts.fields:pricing' }],
    ])
  })

  it('the builder takes it out of review, finds the comment at its row, and answers with a reason', async () => {
    const { page } = bo
    await button(page, 'Take it out of review').click()
    await eventually(async () => (await stored(1)).status, 'draft')
    const pricing = row(page, 'contracts.fields:pricing')
    await seen(pricing.getByText('What for?'))
    await seen(region(page, 'What was said').getByText('What for?'))
    await pricing.getByRole('textbox', { name: /^Why/ }).fill('The note says what they pay.')
    await ready(page)
    await button(page, 'Submit for review').click()
    await seen(item(page, 'contracts.fields:pricing').getByText('The note says what they pay.'))
  })
})

describe('two builders and the words of a row', () => {
  it('keeping both together keeps what each has written', async () => {
    const { page } = bo
    await button(page, 'Take it out of review').click()
    const read = row(page, 'accounts:read').getByRole('textbox', { name: /^Why/ })
    await read.fill('Mine.')
    const now = await (await lend.as('bo', 'studio')).get(
      api(1),
      z.looseObject({ revision: z.number(), ceiling: z.array(z.looseObject({})) }),
    )
    const theirs = now.ceiling.map((one) => ({ ...one, justification: 'Theirs.' }))
    const put = { purpose: 'Notes on accounts.', sponsor: 'bo', ceiling: theirs }
    const sent = { ...put, revision: now.revision }
    expect(await (await lend.as('bo', 'studio')).statusOf('PUT', api(1), sent)).toBe(200)
    await button(page, 'Save').click()
    const clash = page.locator('[data-field="ceiling"]')
    await seen(clash.getByText('accounts:read — Mine.'))
    await clash.getByRole('radio', { name: 'Keep both together' }).check()
    await button(page, 'Go on with these').click()
    await eventually(() => read.inputValue(), 'Mine.\nTheirs.')
    const pricing = row(page, 'contracts.fields:pricing').getByRole('textbox', { name: /^Why/ })
    expect(await pricing.inputValue()).toBe('Theirs.')
    await read.fill(WHY)
    await ready(page)
    await button(page, 'Submit for review').click()
    await seen(item(page, 'accounts:read').getByText(WHY))
  })
})

describe('how it looks', () => {
  for (const theme of THEMES)
    for (const width of [1360, 360])
      it(`review with its rows, ${theme}, ${width} px: axe, no sideways scroll, and a picture`, async () => {
        const { page } = rhea
        await page.setViewportSize({ width, height: 900 })
        await page.emulateMedia({ colorScheme: theme })
        await page.goto(lend.at(at(1), 'studio'))
        await seen(card(page))
        const read = item(page, 'accounts:read')
        await button(read, 'Comment on Accounts API · Read').click()
        await eventually(() => page.locator('[aria-busy]').count(), 0)
        const tall = await page.locator('.page-inner').evaluate((one) => one.clientHeight)
        await page.setViewportSize({ width, height: Math.min(tall + 140, 6_000) })
        await picture(page, `studio-rows-${theme}-${width}`)
        expect(await wideIn(page)).toEqual([])
        expect(await findingsOf(page)).toEqual([])
        await page.setViewportSize({ width: 1360, height: 900 })
      })
})

describe('a published version', () => {
  stepByStep()

  it('whose sponsor has left is flagged, and somebody names another', async () => {
    const { page } = rhea
    await page.goto(lend.at(at(1), 'studio'))
    const approve = button(page, 'Approve and publish')
    await eventually(() => approve.getAttribute('aria-disabled'), 'false')
    await approve.click()
    await seen(page.getByText('v1 is published.'))

    const ines = await lend.as('ines', 'studio')
    const users = z.looseObject({ items: z.array(z.looseObject({ id: z.string() })) })
    const [who] = (await ines.get('/admin/users?login=bo', users)).items
    const set = (status: string) => ines.statusOf('PATCH', `/admin/users/${who?.id}`, { status })
    expect(await set('disabled')).toBe(200)
    const needed = async () => (await ines.get(`/templates/${NAME}`, template)).sponsor_needed
    expect(await needed()).toBe(true)

    await page.goto(lend.at('/studio', 'studio'))
    const listed = page.locator(`li[data-template="${NAME}"]`)
    await seen(listed.getByText('Needs a sponsor', { exact: true }))
    await listed.getByRole('link', { name: /^v1/ }).click()
    const left = region(page, 'Its sponsor has left')
    await left.getByRole('textbox').fill('bo')
    await button(left, 'Name the sponsor').click()
    await seen(left.getByText('no active person of this organisation'))
    await picture(page, 'studio-sponsor-left')
    await left.getByRole('textbox').fill('rhea')
    await button(left, 'Name the sponsor').click()
    await gone(left)
    expect((await stored(1)).sponsor).toMatchObject({ login: 'rhea', status: 'active' })
    expect(await needed()).toBe(false)
    await page.goto(lend.at('/studio', 'studio'))
    await seen(listed)
    expect(await listed.getByText('Needs a sponsor', { exact: true }).count()).toBe(0)
    expect(await set('active')).toBe(200)
  })

  it('is retired by a reviewer, asked twice; its builder has no such button', async () => {
    await bo.context.close()
    bo = await signedIn(browser, lend, { login: 'bo', tenant: 'studio', at: at(1) })
    await seen(card(bo.page))
    expect(await button(bo.page, 'Retire this version').count()).toBe(0)
    const { page } = rhea
    await page.goto(lend.at(at(1), 'studio'))
    await button(page, 'Retire this version').click()
    const asked = region(page, 'Retire this version')
    await button(asked, 'Cancel').click()
    expect((await stored(1)).status).toBe('published')
    await button(page, 'Retire this version').click()
    await asked.getByRole('textbox').fill('Nobody keeps stock.')
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme })
      await asked.scrollIntoViewIfNeeded()
      await picture(page, `studio-retire-${theme}`)
      expect(await findingsOf(page)).toEqual([])
    }
    await button(asked, 'Retire v1').click()
    await seen(page.getByText('v1 is retired.'))
    expect((await stored(1)).status).toBe('retired')
    const adam = await lend.as('adam')
    expect(await adam.statusOf('PUT', `/enablements/${NAME}`, { status: 'on' })).not.toBe(200)
  })
})
