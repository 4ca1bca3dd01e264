import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { PersonApi } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import { eventually, gone, seen, signedIn, textOf, type Window } from './support/person.ts'

/** The studio, by clicking: a builder drafts, a reviewer publishes, an admin adopts (journey 1). */

const NAME = 'churn-notes'
const TITLE = 'Churn notes'
const at = (n: number, more = '') => `/studio/${NAME}/${n}${more}`
const api = (n: number, more = '') => `/templates/${NAME}/versions/${n}${more}`

let lend: Lend
let browser: Browser
let bo: Window
let rhea: Window

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  bo = await signedIn(browser, lend, { login: 'bo', tenant: 'studio', at: '/studio' })
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
  revision: z.number(),
  purpose: z.string(),
  context: z.string(),
  modes: z.array(z.string()),
  ceiling: z.array(z.looseObject({ permission: z.string() })),
  sensitive: z.array(z.looseObject({ permission: z.string() })),
})
const builder = (): Promise<PersonApi> => lend.as('bo', 'studio')
const stored = async (n: number) => (await builder()).get(api(n), version)

/** The whole of a PUT, as another tab of a builder sends it. */
async function putAs(login: string, path: string, body: object): Promise<number> {
  return (await lend.as(login, 'studio')).statusOf('PUT', path, body)
}

const region = (page: Page, name: string): Locator =>
  page.getByRole('region', { name, exact: true })
const button = (of: Page | Locator, name: string): Locator =>
  of.getByRole('button', { name, exact: true })
const checkOf = (page: Page) => page.locator('.check-state')
const row = (page: Page, permission: string) => page.locator(`li[data-row="${permission}"]`)

async function add(page: Page, words: string, permission: string): Promise<void> {
  await page.getByRole('searchbox', { name: /^Find permissions/ }).fill(words)
  const found = page.locator(`li[data-found="${permission}"]`)
  await found.getByRole('button', { name: /^Add/ }).click()
  await seen(row(page, permission))
}

async function save(page: Page): Promise<void> {
  await button(page, 'Save').click()
  await seen(page.getByText('All saved'))
}

describe('journey 1, by clicking', () => {
  stepByStep()

  it('a builder makes a template; a bad name is told at its field', async () => {
    const { page } = bo
    await button(page, 'New template').click()
    await page.getByRole('textbox', { name: /^Name/ }).fill('Not A Name')
    await page.getByRole('textbox', { name: /^Title/ }).fill(TITLE)
    await button(page, 'Create the draft').click()
    await seen(page.locator('[data-problems="/name"]'))
    await page.getByRole('textbox', { name: /^Name/ }).fill(NAME)
    await page.getByRole('combobox', { name: 'Who may turn it on' }).selectOption('public')
    await button(page, 'Create the draft').click()
    await page.waitForURL(lend.at(at(1), 'studio'))
    await seen(page.getByRole('heading', { name: `${TITLE} v1` }))
  })

  it('what is missing stands beside its field, and the draft cannot be submitted', async () => {
    const { page } = bo
    await seen(page.locator('[data-problems="/purpose"]'))
    await seen(page.locator('[data-problems="/ceiling"]'))
    await seen(page.locator('[data-problems="/sponsor"]'))
    expect(await button(page, 'Submit for review').getAttribute('aria-disabled')).toBe('true')
    await page.getByRole('textbox', { name: 'Purpose' }).fill('Notes on accounts that may leave.')
    await gone(page.locator('[data-problems="/purpose"]'))
    await page.getByRole('textbox', { name: 'Sponsor' }).fill('nobody')
    await seen(page.locator('[data-problems="/sponsor"]'))
    await page.getByRole('textbox', { name: 'Sponsor' }).fill('bo')
    await gone(page.locator('[data-problems="/sponsor"]'))
  })

  it('the job in words finds permissions with their marks; what is never delegable cannot be added', async () => {
    const { page } = bo
    await page.getByRole('searchbox', { name: /^Find permissions/ }).fill('billing admin')
    const never = page.locator('li[data-found="billing:admin"]')
    await seen(never.getByText('Never delegable'))
    const adding = never.getByRole('button', { name: /^Add/ })
    expect(await adding.getAttribute('aria-disabled')).toBe('true')
    await adding.click({ force: true })
    expect(await row(page, 'billing:admin').count()).toBe(0)
    await add(page, 'read accounts', 'accounts:read')
    await add(page, 'send an email to customers', 'email:send')
    await add(page, 'contract pricing', 'contracts.fields:pricing')
    await seen(row(page, 'contracts.fields:pricing').getByText('Sensitive'))
    await seen(row(page, 'email:send').getByText('High risk'))
  })

  it('a wrong resource and a filter that is none are told beside them, and saved only when mended', async () => {
    const { page } = bo
    const sends = row(page, 'email:send')
    await sends.getByRole('textbox', { name: /^On what/ }).fill('domain/*.example')
    await seen(sends.locator('.field-error'))
    await sends.getByRole('textbox', { name: /^On what/ }).fill('domain/*')
    await gone(sends.locator('.field-error'))
    await add(page, 'accounts in my region', 'accounts.rows:my_region')
    const rows = row(page, 'accounts.rows:my_region')
    await button(rows, 'Narrow it').click()
    const filter = rows.getByRole('textbox', { name: /^Only where/ })
    await filter.fill('{"renewal_in_days":')
    await seen(rows.getByText('is not a JSON object'))
    expect(await button(page, 'Save').getAttribute('aria-disabled')).toBe('true')
    await filter.fill('{"renewal_in_days": {"$like": 1}}')
    await seen(rows.locator('.field-error'))
    await filter.fill('{"renewal_in_days": {"$lte": 90}}')
    await gone(rows.locator('.field-error'))
    await seen(rows.getByText('renewal in days is at most 90'))
    await row(page, 'accounts:read').getByRole('checkbox').check()
    await page.getByRole('checkbox', { name: /^Auto/ }).check()
    await page.getByRole('textbox', { name: /^Requests a minute/ }).fill('99')
    await seen(page.locator('[data-problems="/limits/requestsPerMinute"]'))
    await page.getByRole('textbox', { name: /^Requests a minute/ }).fill('10')
    await eventually(() => textOf(checkOf(page)), 'Nothing to mend')
    await save(page)
    const kept = await stored(1)
    expect(kept.revision).toBe(2)
    expect(kept.ceiling).toEqual([
      { permission: 'accounts:read' },
      { permission: 'email:send', resource: 'domain/*' },
      { permission: 'contracts.fields:pricing' },
      { permission: 'accounts.rows:my_region', narrow: { renewal_in_days: { $lte: 90 } } },
    ])
    expect(kept.sensitive).toEqual([{ permission: 'accounts:read' }])
    expect(kept.modes).toEqual(['ask', 'auto'])
  })

  it('the sandbox says what would happen in each mode, layer by layer, and writes nothing', async () => {
    const { page } = bo
    const before = await stored(1)
    await page.getByRole('link', { name: 'Try it' }).click()
    await page.getByRole('combobox', { name: /^Something else/ }).selectOption('billing:admin')
    await button(page, 'Add').click()
    const has = page.getByRole('group', { name: 'A made-up person, who has' })
    await has.getByRole('checkbox', { name: /^Send/ }).uncheck()
    await button(page, 'What would happen?').click()
    const tried = (permission: string) => page.locator(`li[data-tried="${permission}"]`)
    await seen(tried('billing:admin').getByText('Refused', { exact: true }))
    await seen(tried('email:send').getByText('Refused', { exact: true }))
    await seen(tried('accounts:read').getByText('Asked of the user', { exact: true }))
    await tried('email:send').getByText('Each layer’s answer').click()
    const deciding = tried('email:send').locator('li[data-decides="true"]')
    expect(await deciding.getAttribute('data-layer')).toBe('user_access')
    await page.locator('label.segment', { hasText: 'Bypass' }).click()
    await seen(page.getByText('This version has no Bypass: a session would run in Ask.'))
    expect(await stored(1)).toEqual(before)
    await page.getByRole('link', { name: 'Back to the version' }).click()
  })

  it('submitted, it stands still; its builder is told why they cannot decide', async () => {
    const { page } = bo
    await page.getByRole('textbox', { name: /^Note to the reviewer/ }).fill('First of its kind.')
    await eventually(() => textOf(checkOf(page)), 'Nothing to mend')
    await button(page, 'Submit for review').click()
    await seen(button(page, 'Approve and publish'))
    await seen(page.getByText('You edited this version, so somebody else has to review it.'))
    expect(await button(page, 'Approve and publish').getAttribute('aria-disabled')).toBe('true')
    await button(page, 'Approve and publish').click({ force: true })
    expect((await stored(1)).status).toBe('in_review')
  })

  it('the reviewer finds it in the queue, sees the reach and what can leave, and sends it back with a reason', async () => {
    const { page } = rhea
    await page.goto(lend.at('/studio', 'studio'))
    await page.getByRole('link', { name: `Review ${TITLE} v1` }).click()
    await seen(region(page, 'What changes').getByText('4 items added, 2 of them high risk'))
    await seen(region(page, 'What changes').getByText('Enforced at the tool gateway'))
    await seen(page.locator('[data-pair="contracts.fields:pricing"]'))
    await seen(region(page, 'The last requests, decided again').getByText('Nobody asked'))
    await seen(page.getByText('First of its kind.'))
    await eventually(() => button(page, 'Send back').getAttribute('aria-disabled'), 'false')
    await button(page, 'Send back').click()
    await seen(page.getByText('Say what has to change, then send it back.'))
    await page.getByRole('textbox', { name: /^Comment/ }).fill('Leave the prices out.')
    await button(page, 'Send back').click()
    await gone(button(page, 'Approve and publish'))
    expect((await stored(1)).status).toBe('draft')
  })

  it('mended and submitted again, it is approved and published, and an admin elsewhere adopts it', async () => {
    const { page } = bo
    await page.goto(lend.at(at(1), 'studio'))
    const price = row(page, 'contracts.fields:pricing')
    await price.getByRole('button', { name: /^Remove/ }).click()
    await eventually(() => textOf(checkOf(page)), 'Nothing to mend')
    await button(page, 'Submit for review').click()
    await seen(button(page, 'Approve and publish'))
    await rhea.page.reload()
    await seen(rhea.page.getByText('Leave the prices out.'))
    const approve = button(rhea.page, 'Approve and publish')
    await eventually(() => approve.getAttribute('aria-disabled'), 'false')
    await approve.click()
    await seen(rhea.page.getByText('v1 is published.'))
    expect((await stored(1)).status).toBe('published')
    const adam = await lend.as('adam')
    expect(await adam.statusOf('PUT', `/enablements/${NAME}`, { status: 'on' })).toBe(200)
    const on = await adam.get(
      `/enablements/${NAME}`,
      z.looseObject({ status: z.string(), adopted_version: z.number() }),
    )
    expect(on).toMatchObject({ status: 'on', adopted_version: 1 })
  })
})

describe('two builders', () => {
  stepByStep()

  it('a draft is opened from the published version', async () => {
    const { page } = bo
    await page.goto(lend.at('/studio', 'studio'))
    const card = page.locator(`li[data-template="${NAME}"]`)
    await button(card, 'Start v2 from it').click()
    await page.waitForURL(lend.at(at(2), 'studio'))
    await seen(row(page, 'accounts:read'))
  })

  it('saving over another’s revision shows both and loses nothing', async () => {
    const { page } = bo
    const before = await stored(2)
    const { ceiling, purpose, sensitive } = before
    await page.getByRole('textbox', { name: 'Purpose' }).fill('My purpose.')
    await page.getByRole('textbox', { name: 'Context' }).fill('My context.')
    await add(page, 'dashboards', 'dashboard:view')
    // Which of them is not guessed: the field is empty, and says so until it is filled.
    const board = row(page, 'dashboard:view')
    await seen(board.locator('.field-error'))
    await board.getByRole('textbox', { name: /^On what/ }).fill('dashboard/*')
    await gone(board.locator('.field-error'))
    const theirs = {
      revision: before.revision,
      purpose: 'Their purpose.',
      modes: ['ask'],
      sensitive,
      sponsor: 'bo',
      ceiling: [...ceiling, { permission: 'email-templates:write' }],
    }
    expect(purpose).not.toBe(theirs.purpose)
    expect(await putAs('bo', api(2), theirs)).toBe(200)
    await button(page, 'Save').click()
    const clash = region(page, 'Somebody else saved this draft while you were editing')
    await seen(clash.getByText('Their purpose.'))
    await seen(clash.getByText('My purpose.'))
    const field = (name: string) => clash.locator(`[data-field="${name}"]`)
    // What only one of them touched is settled; what both did is theirs to choose.
    expect(await field('context').getByRole('radio', { name: 'Keep mine' }).isChecked()).toBe(true)
    expect(await field('modes').getByRole('radio', { name: 'Take theirs' }).isChecked()).toBe(true)
    expect(await field('purpose').getByRole('radio', { checked: true }).count()).toBe(0)
    const go = button(clash, 'Go on with these')
    expect(await go.getAttribute('aria-disabled')).toBe('true')
    await picture(page, 'studio-clash')
    // A reload in between loses nothing either.
    await page.reload()
    await seen(clash.getByText('My purpose.'))
    await field('purpose').getByRole('radio', { name: 'Keep mine' }).check()
    await field('ceiling').getByRole('radio', { name: 'Keep both together' }).check()
    await go.click()
    await save(page)
    const after = await stored(2)
    expect(after).toMatchObject({ purpose: 'My purpose.', context: 'My context.', modes: ['ask'] })
    expect(after.ceiling.map((one) => one.permission)).toEqual([
      ...ceiling.map((one) => one.permission),
      'dashboard:view',
      'email-templates:write',
    ])
  })

  it('what was typed and not saved is there again after a reload, and can be let go', async () => {
    const { page } = bo
    await page.getByRole('textbox', { name: 'Purpose' }).fill('Half a thought')
    await page.reload()
    await seen(page.getByText('Changes that you had not saved are here again.'))
    expect(await page.getByRole('textbox', { name: 'Purpose' }).inputValue()).toBe('Half a thought')
    await button(page, 'Discard my changes').click()
    expect(await page.getByRole('textbox', { name: 'Purpose' }).inputValue()).toBe('My purpose.')
  })
})

describe('who may not', () => {
  it('a person without a part in it is told so, and has no link to it', async () => {
    const omar = await signedIn(browser, lend, { login: 'omar', at: '/studio' })
    await seen(omar.page.getByText('You cannot see this'))
    expect(await omar.page.getByRole('link', { name: 'Studio' }).count()).toBe(0)
    await omar.context.close()
  })

  it('a draft is not shown to another organisation, and a wrong address says so', async () => {
    const adam = await signedIn(browser, lend, { login: 'adam', at: at(2) })
    await seen(adam.page.getByText('There is no such version'))
    await adam.page.goto(lend.at(at(1)))
    await seen(region(adam.page, 'Combined reach').getByRole('table'))
    expect(await button(adam.page, 'Approve and publish').count()).toBe(0)
    await adam.context.close()
  })

  it('an outage is told, with a way to try again', async () => {
    const { page } = rhea
    await page.route('**/api/templates?*', (route) => route.abort())
    await page.goto(lend.at('/studio', 'studio'))
    await seen(page.getByText('The server cannot be reached'))
    await page.unroute('**/api/templates?*')
    await button(page, 'Try again').click()
    await seen(page.locator(`li[data-template="${NAME}"]`))
  })
})

const SCREENS = [
  ['list', () => bo, '/studio', (page: Page) => page.locator('li[data-template]')],
  ['editor', () => bo, at(2), (page: Page) => page.getByText('Nothing to mend')],
  ['review', () => rhea, at(1), (page: Page) => region(page, 'Combined reach').getByRole('table')],
  ['sandbox', () => bo, at(2, '/try'), (page: Page) => button(page, 'What would happen?')],
] as const

describe('how it looks', () => {
  for (const theme of THEMES)
    for (const width of [1360, 360])
      for (const [name, who, path, shows] of SCREENS)
        it(`${name}, ${theme}, ${width} px: axe, no sideways scroll, and a picture`, async () => {
          const { page } = who()
          await page.setViewportSize({ width, height: 900 })
          await page.emulateMedia({ colorScheme: theme })
          await page.goto(lend.at(path, 'studio'))
          await seen(shows(page))
          if (name === 'editor')
            await page.getByRole('searchbox', { name: /^Find permissions/ }).fill('email')
          if (name === 'sandbox') {
            await button(page, 'What would happen?').click()
            await page.getByText('Each layer’s answer').first().click()
          }
          await eventually(() => page.locator('[aria-busy]').count(), 0)
          const tall = await page.locator('.page-inner').evaluate((one) => one.clientHeight)
          await page.setViewportSize({ width, height: Math.min(tall + 140, 5_000) })
          await picture(page, `studio-${name}-${theme}-${width}`)
          expect(await wideIn(page)).toEqual([])
          expect(await findingsOf(page)).toEqual([])
        })
})
