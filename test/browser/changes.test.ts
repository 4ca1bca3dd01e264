import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { rules } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures, stepByStep } from './support/failures.ts'
import { endAll, Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import {
  ALLOW_ONCE,
  allowAlways,
  card,
  chatOf,
  eventually,
  gone,
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

/** A wider version of the demo's template, from its adoption to the first session that is not asked again. */

let data: string
let lend: Lend
let browser: Browser
let window: Window
let page: Page

showFailures(() => ({ browser, lend }))

/** What studio published meanwhile: one permission more, a domain instead of all, longer instructions. */
async function publishFour(): Promise<void> {
  const pg = await PGlite.create(join(data, 'database'))
  await pg.query(
    `insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
       children, sensitive, sponsor, author, reviewer, published_at)
     select template_id, 4, 'published', purpose,
       jsonb_set(ceiling, '{4,resource}', '"domain/customer.example"') || '[{"permission": "email-templates:write"}]',
       context || E'\nSave what you wrote as a template.', modes, limits || '{"sessionLifeSeconds": 14400}',
       children, '[]', sponsor, author, reviewer, now()
     from template_version where version = 3
       and template_id = (select id from template where name = 'renewal-briefs')`,
  )
  await pg.close()
}

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'lend-changes-'))
  ;[lend, browser] = await Promise.all([Lend.start({ LEND_DATA: data }), openBrowser()])
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
  await rm(data, { recursive: true, force: true })
})

const THREE = ['accounts.rows:my_region', 'accounts:read', 'dashboard:view']
const changeCard = (): Locator =>
  page.getByRole('article', { name: 'Renewal briefs may ask for more' })
const CONFIRM = 'I have seen it: my rules go on'

describe('a version that allows more', () => {
  stepByStep()

  it('maya says always to three things', async () => {
    window = await signedIn(browser, lend)
    page = window.page
    await startSession(lend, page)
    await allowAlways(card(page, '3 things'))
    await eventually(() => heldIn(page), THREE)
    await endAll(lend, 'maya')
    await window.context.close()
  })

  it('studio publishes version 4, and adam adopts it', async () => {
    await lend.stop()
    await publishFour()
    await lend.startAgain()
    const adam = await lend.as('adam')
    const adopted = await adam.send(
      'POST',
      '/enablements/renewal-briefs/adopt',
      z.looseObject({ widens: z.boolean(), rules_suspended: z.number() }),
      { version: 4 },
    )
    expect(adopted).toMatchObject({ widens: true, rules_suspended: 3 })
  })

  it('her rules are shown as suspended, and the card says what changed', async () => {
    window = await signedIn(browser, lend, { at: '/rules' })
    page = window.page
    await seen(changeCard())
    await eventually(() => page.locator('tr[data-rule]').getByText('Asks again').count(), 3)
    const text = await textOf(changeCard())
    expect(text).toContain('v3 to v4')
    expect(text).toContain('your 3 rules wait and you are asked again')
    const added = changeCard().locator('li[data-permission="email-templates:write"]')
    expect(await textOf(added)).toMatch(/^Email templates · Write API Medium risk/)
    const narrowed = changeCard().locator('li[data-permission="email:send"]')
    expect(await narrowed.getAttribute('data-change')).toBe('narrowed')
    expect(await textOf(narrowed)).toContain('Before: all of domain/* Now: domain/customer.example')
    expect(text).toContain('A session lasts at most: 4 h, was 8 h')
    expect(text).toMatch(
      /Contract pricing is not marked sensitive by the template any more\. The catalog still marks it/,
    )
    const instructions = changeCard().getByText('The instructions of the agent changed')
    await instructions.click()
    expect(await changeCard().locator('pre').allInnerTexts()).toEqual([
      'Save what you wrote as a template.',
    ])
    expect(
      await changeCard().locator('h4').allInnerTexts(),
      'what is more comes first, what is less last',
    ).toEqual(['New: may now ask for', 'Fewer limits', 'Instructions', 'Narrower than before'])
  })

  it('it looks well in both themes and on a phone, and axe finds nothing (B27, B28)', async () => {
    for (const theme of THEMES)
      for (const width of [1280, 360]) {
        const at = `${theme} ${width}`
        await page.emulateMedia({ colorScheme: theme })
        await page.setViewportSize({ width, height: width === 360 ? 1500 : 1150 })
        await seen(changeCard())
        await picture(page, `template-change-${theme}-${width}`)
        expect(await findingsOf(page), at).toEqual([])
        expect(await wideIn(page), at).toEqual([])
      }
    await page.emulateMedia({ colorScheme: 'light' })
    await page.setViewportSize({ width: 1360, height: 900 })
  })

  it('until she confirms, what the rules cover prompts once more, and the chat says why', async () => {
    await startSession(lend, page)
    const asks = card(page, '3 things')
    await seen(asks)
    const notice = chatOf(page).locator('details[data-template="renewal-briefs"]')
    expect(await textOf(notice.locator('summary').first())).toContain(
      'Renewal briefs allows more than when you said always. See what changed',
    )
    const maya = await lend.as('maya')
    const pending = await maya.get(
      '/access-requests?status=pending',
      z.looseObject({
        items: z.array(
          z.looseObject({ items: z.array(z.looseObject({ decision_reason: z.string() })) }),
        ),
      }),
    )
    expect(pending.items[0]?.items.map((one) => one.decision_reason)).toEqual([
      'reconsent',
      'reconsent',
      'reconsent',
    ])
    await picture(page, 'template-change-chat-folded')
    await notice.getByText('See what changed').click()
    await seen(notice.getByRole('button', { name: CONFIRM }))
    await picture(page, 'template-change-chat-open')
    await notice.getByText('See what changed').click()
    await press(asks, ALLOW_ONCE)
    await eventually(() => heldIn(page), THREE)
    // Once is once: the rules still wait.
    expect((await maya.get('/rules', rules)).items.map((one) => one.status)).toEqual([
      'suspended',
      'suspended',
      'suspended',
    ])
    await endAll(lend, 'maya')
  })

  it('she confirms once, where she read it; the rules are in force again', async () => {
    await page.goto(lend.at('/rules'))
    await press(changeCard(), CONFIRM)
    await seen(page.getByText('Your rules for Renewal briefs are in force again.'))
    await gone(changeCard())
    await eventually(() => page.locator('tr[data-rule]').getByText('Active').count(), 3)
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
    const maya = await lend.as('maya')
    expect((await maya.get('/template-changes', rules)).items).toEqual([])
  })

  it('the next session is granted by rule, without a card', async () => {
    await startSession(lend, page)
    await eventually(() => heldIn(page), THREE)
    const done = settledCards(page).first()
    await eventually(() => done.getByText('Granted by your rule').count(), 3)
    expect(await card(page, '3 things').count()).toBe(0)
    await eventually(
      () =>
        textOf(paneOf(page).locator('li[data-permission="accounts:read"]').first()).then((t) =>
          t.includes('Your rule'),
        ),
      true,
    )
    await endAll(lend, 'maya')
  })

  it('what was adopted while she read is shown, and nothing is confirmed', async () => {
    const adam = await lend.as('adam')
    const adopt = (version: number) =>
      adam.send('POST', '/enablements/renewal-briefs/adopt', z.unknown(), { version })
    await adopt(2)
    await adopt(3)
    await page.goto(lend.at('/rules'))
    await seen(changeCard())
    // The line is cut, so that the page does not hear of what comes.
    await page.route('**/template-changes/**/confirm', async (route) => {
      await adopt(4)
      await route.continue()
    })
    await press(changeCard(), CONFIRM)
    // Back to what she knew: it says so, and still waits for her.
    const now = page.getByRole('article', { name: 'Renewal briefs changed' })
    await seen(now.getByText('It changed again while you were reading'))
    await seen(now.getByText('Nothing is wider now than when you said always'))
    await seen(now.getByText('now v4'))
    const maya = await lend.as('maya')
    expect((await maya.get('/rules', rules)).items.every((one) => one.status === 'suspended')).toBe(
      true,
    )
  })

  it('no page had a script error or anything that its policy had to stop', () => {
    expect(window.watch.problems).toEqual([])
  })
})
