import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { endAll, forgetRules, Lend, type SecondApp } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import { eventually, gone, seen, signedIn, textOf, type Window } from './support/person.ts'

/** Reviews, templates and freezes: the admin changes them by clicking, the auditor sees them, the user neither. */

let data: string
let lend: Lend
let browser: Browser
let app: SecondApp
let adam: Window
let cleo: Window
let maya: Window

showFailures(() => ({ browser, lend }))

/** Time goes by: maya's rule is old, and studio has published a version that allows more. */
async function later(): Promise<void> {
  const pg = await PGlite.create(join(data, 'database'))
  await pg.query(`update consent_rule set created_at = now() - interval '200 days'`)
  await pg.query(
    `insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
       children, sensitive, sponsor, author, reviewer, published_at)
     select template_id, 4, 'published', purpose, ceiling || '[{"permission": "email-templates:write"}]',
       context, modes, limits, children, sensitive, sponsor, author, reviewer, now()
     from template_version where version = 3
       and template_id = (select id from template where name = 'renewal-briefs')`,
  )
  await pg.close()
}

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const PRICING = { permission: 'contracts.fields:pricing' }

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'lend-organisation-'))
  ;[lend, browser] = await Promise.all([Lend.start({ LEND_DATA: data }), openBrowser()])
  const api = await lend.as('maya')
  await api.send('POST', '/rules', z.unknown(), {
    template: 'renewal-briefs',
    permission: 'accounts.rows:my_region',
    effect: 'allow',
  })
  app = await lend.secondApp()
  for (let n = 0; n < 3; n++) await (await app.start({ mode: 'bypass' })).ask({ items: [READ] })
  await endAll(lend, 'maya')
  await lend.stop()
  await later()
  await lend.startAgain()
  app = await lend.secondApp()
  adam = await signedIn(browser, lend, { login: 'adam' })
  cleo = await signedIn(browser, lend, { login: 'cleo' })
  maya = await signedIn(browser, lend)
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
  await rm(data, { recursive: true, force: true })
})

const menu = (page: Page) => page.locator('summary', { hasText: 'Organisation' })
const template = (page: Page, title: string) => page.getByRole('article', { name: title })
const confirm = (page: Page, name: string) =>
  page.getByRole('dialog').getByRole('button', { name, exact: true })
const enablement = z.looseObject({
  status: z.string(),
  adopted_version: z.number(),
  modes: z.array(z.string()),
  kept: z.array(z.looseObject({ permission: z.string() })),
  limits: z.record(z.string(), z.number()),
})
const now = async (name = 'renewal-briefs') =>
  (await lend.as('adam')).get(`/enablements/${name}`, enablement)
const keptNow = async () => (await now()).kept.map((one) => one.permission)

describe('who sees what', () => {
  it('admins and auditors have the organisation’s menu, maya has not, and the addresses refuse her', async () => {
    await seen(menu(adam.page))
    await seen(menu(cleo.page))
    expect(await menu(maya.page).count()).toBe(0)
    for (const path of ['/reviews', '/templates', '/freezes']) {
      await maya.page.goto(lend.at(path))
      await seen(maya.page.getByText('You cannot see this'))
    }
  })

  it('the auditor sees all of it and has no button that changes anything', async () => {
    const { page } = cleo
    await page.goto(lend.at('/reviews'))
    await seen(page.locator('tr[data-rule]'))
    await seen(page.locator('tr[data-permission="accounts:read"]'))
    expect(await page.getByRole('button', { name: /Narrow|Take/ }).count()).toBe(0)
    await page.goto(lend.at('/templates'))
    await seen(template(page, 'Renewal briefs').getByText('v4 waits for an org admin'))
    expect(await page.locator('main').getByRole('button').count()).toBe(0)
    await page.goto(lend.at('/freezes'))
    await seen(page.getByText('Org admins freeze and unfreeze.'))
    expect(await page.locator('main').getByRole('button').count()).toBe(0)
  })
})

describe('how it looks', () => {
  for (const name of ['reviews', 'templates', 'freezes'])
    for (const theme of THEMES)
      it(`${name}, ${theme}: nothing for axe, nothing sideways at 360 px`, async () => {
        const { page } = adam
        await page.emulateMedia({ colorScheme: theme })
        for (const width of [1280, 768, 360]) {
          await page.setViewportSize({ width, height: width === 360 ? 780 : 900 })
          await page.goto(lend.at(`/${name}`))
          await seen(page.locator('.staff-card'))
          await seen(page.getByText('Live', { exact: true }))
          if (name === 'templates')
            await page.getByRole('button', { name: 'Change', exact: true }).first().click()
          await picture(page, `${name} ${theme} ${width}`)
          expect(await findingsOf(page)).toEqual([])
          expect(await wideIn(page)).toEqual([])
        }
        await page.setViewportSize({ width: 1280, height: 900 })
      })
})

describe('reviews', () => {
  it('one click and a confirmation take a rule that nobody needs away; keeping it changes nothing', async () => {
    const { page } = adam
    await page.goto(lend.at('/reviews'))
    const row = page.locator('tr[data-rule]')
    await row.getByRole('button', { name: /^Take away/ }).click()
    await seen(page.getByRole('dialog').getByText('maya is asked again when'))
    await confirm(page, 'Keep it').click()
    await seen(row)
    await row.getByRole('button', { name: /^Take away/ }).click()
    await confirm(page, 'Take away').click()
    await gone(row)
    const rules = z.looseObject({ items: z.array(z.unknown()) })
    expect((await (await lend.as('maya')).get('/rules', rules)).items).toEqual([])
  })

  it('what was granted and never used is taken out of the template, and the next session cannot ask for it', async () => {
    const { page } = adam
    await page.goto(lend.at('/reviews'))
    const row = page.locator('tr[data-permission="accounts:read"]')
    await row.getByRole('button', { name: /^Take .* out of/ }).click()
    await seen(page.getByRole('dialog').getByText('You can put it back under Templates.'))
    await confirm(page, 'Narrow').click()
    await eventually(async () => (await keptNow()).includes('accounts:read'), false)
    const asked = await (await app.start()).ask({ items: [READ] })
    expect(asked.items[0]?.reason).toBe('outside_ceiling')
    await endAll(lend, 'maya')
  })

  it('consent health has its numbers', async () => {
    const { page } = adam
    const health = page.getByRole('region', { name: 'Consent health' })
    await seen(health.getByRole('rowheader', { name: 'All templates' }))
  })
})

describe('templates', () => {
  stepByStep()

  it('items, modes and limits are changed, and the server’s answer is read back', async () => {
    const { page } = adam
    await page.goto(lend.at('/templates'))
    const one = template(page, 'Renewal briefs')
    await one.getByRole('button', { name: 'Change', exact: true }).click()
    const read = one.locator('label', { hasText: 'accounts:read' }).getByRole('checkbox')
    expect(await read.isChecked()).toBe(false)
    await read.check()
    await one.locator('label', { hasText: PRICING.permission }).getByRole('checkbox').uncheck()
    await one.locator('label', { hasText: 'Bypass' }).getByRole('checkbox').uncheck()
    expect(
      await one.locator('label', { hasText: 'Always on' }).getByRole('checkbox').isDisabled(),
    ).toBe(true)
    await one.getByLabel('Requests a minute').fill('5')
    await one.getByRole('button', { name: 'Save' }).click()
    await seen(one.getByText('Renewal briefs is on. No session ended, no rule waits.'))
    const after = await now()
    expect(after.modes).toEqual(['ask', 'auto'])
    expect(after.limits.requestsPerMinute).toBe(5)
    expect(await keptNow()).toContain('accounts:read')
    expect(await keptNow()).not.toContain(PRICING.permission)
  })

  it('a version that waits is shown as what it changes here, and adopted', async () => {
    const { page } = adam
    const one = template(page, 'Renewal briefs')
    await seen(one.getByText('v4 waits for you'))
    await one.getByRole('button', { name: 'See what v4 changes' }).click()
    await seen(one.getByText('It allows more than now.'))
    expect(await textOf(one.locator('.diff-added'))).toContain('Email templates · Write')
    await picture(page, 'templates adopt 1280')
    expect(await findingsOf(page)).toEqual([])
    await one.getByRole('button', { name: 'Adopt v4' }).click()
    await seen(one.getByText('Renewal briefs is now v4.'))
    expect((await now()).adopted_version).toBe(4)
  })

  it('turning off warns, ends the sessions and says how many; turning on again keeps what was kept', async () => {
    const { page } = adam
    await app.start()
    const one = template(page, 'Renewal briefs')
    await one.getByRole('button', { name: 'Turn off' }).click()
    await seen(page.getByRole('dialog').getByText('ends now and gives everything back'))
    await picture(page, 'templates off light 1280')
    await confirm(page, 'Turn off').click()
    await seen(one.getByText('Renewal briefs is off. 1 session ended'))
    expect((await now()).status).toBe('off')
    await one.getByRole('button', { name: 'Turn on' }).click()
    await one.getByRole('button', { name: 'Turn v4 on' }).click()
    await seen(one.getByText('Renewal briefs is on.'))
    expect((await now()).status).toBe('on')
    expect(await keptNow()).not.toContain(PRICING.permission)
  })

  it('what the server refuses is said, and what was changed stays in the form', async () => {
    const { page } = adam
    const one = template(page, 'Renewal briefs')
    await one.getByRole('button', { name: 'Change', exact: true }).click()
    await one.getByLabel('Requests a minute').fill('3')
    await page.route('**/api/enablements/renewal-briefs', (route) => route.abort())
    await one.getByRole('button', { name: 'Save' }).click()
    await seen(one.getByRole('alert').getByText('Not saved.'))
    expect(await one.getByLabel('Requests a minute').inputValue()).toBe('3')
    await page.unroute('**/api/enablements/renewal-briefs')
    await one.getByRole('button', { name: 'Save' }).click()
    await seen(one.getByText('Renewal briefs is on.'))
  })
})

describe('freezes', () => {
  stepByStep()

  const freezes = z.looseObject({
    items: z.array(z.looseObject({ scope: z.string(), target_name: z.string() })),
  })
  const frozen = async () =>
    (await (await lend.as('adam')).get('/freezes', freezes)).items
      .map((one) => one.scope)
      .toSorted()

  it('from the top bar the admin freezes maya; nothing is granted to her sessions, and unfreezing lets them go on', async () => {
    const { page } = adam
    await forgetRules(lend, 'maya')
    const session = await app.start()
    await page.goto(lend.at('/sessions'))
    await page.getByRole('link', { name: 'Freeze', exact: true }).first().click()
    await page.getByLabel('Login of the person').fill('nobody-here')
    await page.getByRole('button', { name: 'Freeze', exact: true }).click()
    await seen(page.getByText('Nobody here has the login “nobody-here”.'))
    await page.getByLabel('Login of the person').fill('maya')
    await page.getByRole('button', { name: 'Freeze', exact: true }).click()
    await seen(page.getByRole('dialog').getByText('Nothing ends'))
    await confirm(page, 'Freeze').click()
    const row = page.locator('tr[data-freeze="user"]')
    await seen(row)
    expect(await textOf(row)).toMatch(/^maya Person adam just now/)
    await expect(session.ask({ items: [ROWS] })).rejects.toThrow()
    await row.getByRole('button', { name: 'Unfreeze maya' }).click()
    await gone(row)
    expect((await session.ask({ items: [ROWS] })).items[0]?.outcome).toBe('pending')
    await endAll(lend, 'maya')
  })

  it('a template and an agent are frozen by name', async () => {
    const { page } = adam
    await page.getByText('A template', { exact: true }).click()
    await page.getByRole('combobox', { name: 'Template' }).selectOption({ label: 'Email drafter' })
    await page.getByRole('button', { name: 'Freeze', exact: true }).click()
    await confirm(page, 'Freeze').click()
    await seen(page.locator('tr[data-freeze="template"]').getByText('Email drafter'))
    await page.getByText('An agent', { exact: true }).click()
    await page.getByRole('combobox', { name: 'Agent' }).selectOption({ label: 'Renewal assistant' })
    await page.getByRole('button', { name: 'Freeze', exact: true }).click()
    await confirm(page, 'Freeze').click()
    await seen(page.locator('tr[data-freeze="agent"]').getByText('Renewal assistant'))
    expect(await frozen()).toEqual(['agent', 'template'])
  })

  it('while the organisation is frozen a banner says so on every screen of its staff, and not on maya’s', async () => {
    const { page } = adam
    await page.getByText('The whole organisation', { exact: true }).click()
    await page.getByRole('button', { name: 'Freeze', exact: true }).click()
    await seen(page.getByRole('dialog').getByRole('heading', { name: 'Freeze Acme?' }))
    await confirm(page, 'Freeze').click()
    await seen(page.locator('tr[data-freeze="tenant"]'))
    await picture(page, 'freezes frozen light 1280')
    expect(await findingsOf(page)).toEqual([])
    for (const { page: one } of [adam, cleo]) {
      await one.goto(lend.at('/rules'))
      await seen(one.getByText(/^Your organisation is frozen since/))
    }
    await maya.page.goto(lend.at('/rules'))
    await seen(maya.page.getByText('Live', { exact: true }))
    expect(await maya.page.getByText(/^Your organisation is frozen/).count()).toBe(0)
    await page.getByRole('link', { name: 'Freezes', exact: true }).click()
    for (const what of ['Acme', 'Email drafter', 'Renewal assistant'])
      await page.getByRole('button', { name: `Unfreeze ${what}` }).click()
    await seen(page.getByText('Nothing is frozen'))
    await gone(page.getByText(/^Your organisation is frozen/))
    expect(await frozen()).toEqual([])
  })

  it('no page had an error of its script', () => {
    expect([adam, cleo, maya].flatMap((one) => one.watch.problems)).toEqual([])
  })
})
