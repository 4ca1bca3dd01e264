import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  accessRequest,
  accessRequests,
  records,
  rules as rulesShape,
} from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { endAll, giveDashboard, Lend, type SecondApp, takeDashboard } from './support/lend.ts'
import {
  ALLOW_ONCE,
  allowAlways,
  answerButton,
  card,
  chatOf,
  DENY,
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
  waitingIn,
} from './support/person.ts'

/** Several windows at once: of one person, and of two. */

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const DASHBOARD = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

let lend: Lend
let browser: Browser
let app: SecondApp
let desk: Window
const others: Window[] = []

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  app = await lend.secondApp()
  desk = await signedIn(browser, lend)
})
afterEach(async () => {
  for (const one of others.splice(0)) {
    expect(one.watch.problems).toEqual([])
    await one.context.close()
  }
  expect(desk.watch.problems).toEqual([])
  await endAll(lend, 'maya')
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

const other = async (...args: Parameters<typeof signedIn>): Promise<Window> => {
  const one = await signedIn(...args)
  others.push(one)
  return one
}

const answeredElsewhere = 'Answered in another window or on another device.'

/** How often each item of a session was decided, by the record that compliance reads. */
async function decisionsOf(session: string): Promise<readonly string[]> {
  const cleo = await lend.as('cleo')
  const { items } = await cleo.get(`/activity?session=${session}&type=access.decided`, records)
  return items
    .filter((one) => one.data.decided_by === 'prompt' && one.data.outcome !== 'pending')
    .map((one) => String(one.data.permission))
    .toSorted()
}

describe('one person, several windows', () => {
  it('U16, B16 an answer in one tab settles the card in the other, with no reload', async () => {
    const session = await app.start()
    const second = await desk.context.newPage()
    for (const page of [desk.page, second]) await page.goto(lend.at(`/sessions/${session.id}`))
    await session.ask({ items: [READ, ROWS] })
    await seen(card(second, '2 things'))
    await eventually(() => waitingIn(second), 1)
    await press(card(desk.page, '2 things'), ALLOW_ONCE)

    await seen(second.getByText(answeredElsewhere))
    await eventually(() => card(second).count(), 0)
    expect(await textOf(settledCards(second).first())).toContain('you allowed it')
    await eventually(() => waitingIn(second), 0)
    await eventually(() => heldIn(second), [ROWS.permission, READ.permission])
    // The one who answered is not told that somebody else did.
    expect(await desk.page.getByText(answeredElsewhere).count()).toBe(0)
    await second.close()
  })

  it('U16, B16 so it does in another browser; each item is decided once on the record', async () => {
    const session = await app.start()
    const phone = await other(browser, lend, { viewport: { width: 390, height: 800 } })
    const asked = await session.ask({ items: [READ, ROWS] })
    await phone.page.goto(asked.review_url ?? '')
    await desk.page.goto(lend.at(`/sessions/${session.id}`))
    await seen(card(phone.page, '2 things'))
    await press(card(desk.page, '2 things'), DENY)
    await seen(phone.page.getByText(answeredElsewhere))
    await seen(phone.page.getByText('you denied it'))
    await eventually(() => decisionsOf(session.id), [READ.permission, ROWS.permission].toSorted())
  })

  it('I16, U16 of two answers at once one counts, and both windows end up with it', async () => {
    const session = await app.start()
    await session.ask({ items: [READ] })
    const second = await desk.context.newPage()
    const pages = [desk.page, second]
    for (const page of pages) {
      await page.goto(lend.at(`/sessions/${session.id}`))
      await seen(card(page, '1 thing'))
      await eventually(
        () => answerButton(card(page), ALLOW_ONCE).getAttribute('aria-disabled'),
        'false',
      )
    }
    await Promise.all(
      pages.map((page, i) =>
        answerButton(card(page), i === 0 ? ALLOW_ONCE : DENY)
          .click({ timeout: 2_000 })
          // The other may have settled it just before.
          .catch(() => undefined),
      ),
    )
    for (const page of pages) await eventually(() => card(page).count(), 0)
    const ends = await Promise.all(
      pages.map((page) => textOf(settledCards(page).getByRole('heading').first())),
    )
    expect(ends[0]).toBe(ends[1])
    expect(await decisionsOf(session.id)).toEqual([READ.permission])
    await second.close()
  })

  it('U14, B14 an answer that comes too late is no error: it says so and shows how it ended', async () => {
    const session = await app.start()
    await session.ask({ items: [READ] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(card(page, '1 thing'))
    const maya = await lend.as('maya')
    const [request] = (await maya.get(`/access-requests?session_id=${session.id}`, accessRequests))
      .items
    // While the press is on its way, the same person answers elsewhere.
    await page.route('**/decision', async (route) => {
      await maya.send('POST', `/access-requests/${request?.id}/decision`, accessRequest, {
        digest: request?.digest,
        items: [{ id: request?.items[0]?.id, decision: 'deny' }],
      })
      await route.continue()
    })
    await press(card(page, '1 thing'), ALLOW_ONCE)
    await seen(page.getByText('It was settled before your answer arrived'))
    await seen(settledCards(page).getByText('Denied by you'))
    expect(await page.getByText('Your answer was not taken.').count()).toBe(0)
    await page.unroute('**/decision')
  })

  it('a reload in the middle of a question loses nothing, and the answer still works', async () => {
    const id = await startSession(lend, desk.page)
    await seen(card(desk.page, '3 things'))
    await desk.page.reload()
    await seen(card(desk.page, '3 things'))
    expect(await chatOf(desk.page).getByText('I start with no access.').count()).toBe(1)
    await press(card(desk.page, '3 things'), ALLOW_ONCE)
    await seen(card(desk.page, '1 thing').filter({ hasText: 'Email templates · Write' }))
    await desk.page.reload()
    await seen(card(desk.page, '1 thing').filter({ hasText: 'Email templates · Write' }))
    await eventually(
      () => heldIn(desk.page),
      ['accounts.rows:my_region', 'accounts:read', 'dashboard:view'],
    )
    // The words are there once, not once more after each reload.
    expect(await chatOf(desk.page).getByText('I start with no access.').count()).toBe(1)
    expect(desk.page.url()).toContain(id)
  })

  it('B29 while the line is away the page looks by itself, so what is asked meanwhile is there', async () => {
    const session = await app.start()
    const { page } = desk
    await page.route('**/t/acme/api/events*', (route) => route.abort())
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(page.getByText('Live updates paused, reconnecting'))
    await session.ask({ items: [READ] })
    await seen(card(page, '1 thing'))
    await page.unroute('**/t/acme/api/events*')
    await gone(page.getByText('Live updates paused, reconnecting'))
    await seen(page.getByText('Live', { exact: true }))
    await press(card(page, '1 thing'), ALLOW_ONCE)
    await eventually(() => heldIn(page), [READ.permission])
  })

  it('U7, B09 Undo after Always takes the rule back at once', async () => {
    const session = await app.start()
    await session.ask({ items: [READ] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    await allowAlways(card(page, '1 thing'))
    const maya = await lend.as('maya')
    const rules = async () => (await maya.get('/rules', rulesShape)).items.length
    await eventually(rules, 1)
    await press(settledCards(page).first(), 'Undo rule')
    await eventually(rules, 0)
    await gone(settledCards(page).getByText('1 rule saved.'))
    // What the session holds stays held: the rule only answers questions.
    expect(await heldIn(page)).toEqual([READ.permission])
  })

  it('B09 Take back in the pane stops the agent’s very next call', async () => {
    const session = await app.start()
    await session.ask({ items: [READ, ROWS] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    await press(card(page, '2 things'), ALLOW_ONCE)
    await eventually(() => heldIn(page), [ROWS.permission, READ.permission])
    await session.refresh()
    const token = await session.tokenFor(`${lend.url}/demo/accounts`)
    const call = async () =>
      (
        await fetch(`${lend.url}/demo/accounts/accounts`, {
          headers: { authorization: `Bearer ${token}` },
        })
      ).status
    expect(await call()).toBe(200)
    await press(paneOf(page), 'Take back Accounts API · Read')
    await seen(page.getByText('Taken back: Accounts API · Read.'))
    expect([401, 403]).toContain(await call())
    await eventually(() => heldIn(page), [ROWS.permission])
  })

  it('B32 what the person loses while the card is open is refused at the answer, and the card says so', async () => {
    const session = await app.start()
    await session.ask({ items: [READ, DASHBOARD] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(card(page, '2 things'))
    await takeDashboard(lend)
    try {
      await press(card(page, '2 things'), ALLOW_ONCE)
      const done = settledCards(page).first()
      await seen(done.getByText('you allowed 1 of 2'))
      await seen(done.getByText('Refused: you do not have it'))
      await eventually(() => heldIn(page), [READ.permission])
    } finally {
      await giveDashboard(lend)
    }
  })

  it('U12, U13, B12, B13 a note goes to the agent word for word, and what was denied is not asked again', async () => {
    const session = await app.start()
    const note = 'Not now — “ask Omar” first & wait <b>please</b>'
    await session.ask({ items: [READ] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    const asks = card(page, '1 thing')
    await press(asks, 'Deny with a note…')
    await asks.getByRole('textbox', { name: /^Note to the agent/ }).fill(note)
    await press(asks, 'Deny')
    await seen(settledCards(page).getByText('You said:'))
    const again = await session.ask({ items: [READ], reason: 'In other words, please.' })
    expect(again.items.map((one) => `${one.outcome} ${one.reason}`)).toEqual([
      'refused denied_this_session',
    ])
    expect(again.items[0]?.message).toContain(note)
    await seen(settledCards(page).getByText('Refused: you said no in this session'))
    expect(await card(page).count()).toBe(0)
    expect(await waitingIn(page)).toBe(0)
  })

  it('U14, B14 a withdrawn request has an end of its own, told from a denial', async () => {
    const session = await app.start()
    await session.ask({ items: [READ] })
    const { page } = desk
    await page.goto(lend.at(`/sessions/${session.id}`))
    await seen(card(page, '1 thing'))
    const maya = await lend.as('maya')
    await maya.statusOf('POST', `/sessions/${session.id}/end`, {})
    await seen(settledCards(page).getByText('the request was withdrawn'))
    await seen(settledCards(page).getByText('Withdrawn', { exact: true }))
    expect(await settledCards(page).getByText('Denied').count()).toBe(0)
  })
})

describe('two people side by side', () => {
  it('I6, I17 omar never sees what maya is asked: not in a list, a count, by address or in the stream', async () => {
    const omar = await other(browser, lend, { login: 'omar' })
    const [hers, his] = [await app.start(), await app.start({ login: 'omar' })]
    const stream = await fetch(lend.at('/api/events'), {
      headers: { authorization: `Bearer ${await lend.token('omar')}` },
    })
    const asked = await hers.ask({ items: [READ], reason: 'A secret of hers.' })
    await desk.page.goto(lend.at(`/sessions/${hers.id}`))
    await seen(card(desk.page, '1 thing'))
    await his.ask({ items: [ROWS], reason: 'Something of his.' })

    await omar.page.goto(lend.at('/approvals'))
    await seen(card(omar.page, '1 thing'))
    expect(await card(omar.page).count()).toBe(1)
    await seen(omar.page.getByText('Something of his.'))
    expect(await omar.page.getByText('A secret of hers.').count()).toBe(0)
    await eventually(() => waitingIn(omar.page), 1)
    expect(await waitingIn(desk.page)).toBe(1)

    await omar.page.goto(asked.review_url ?? '')
    await seen(omar.page.getByText('There is no such request'))
    await omar.page.goto(lend.at(`/sessions/${hers.id}`))
    await seen(omar.page.getByText('There is no such session'))
    const api = await lend.as('omar')
    expect(await api.statusOf('GET', `/access-requests/${asked.request_id}`)).toBe(404)
    expect(await api.statusOf('GET', `/sessions/${hers.id}/access`)).toBe(404)

    const heard = await readUntil(stream, his.id)
    expect(heard).not.toContain(hers.id)
    await endAll(lend, 'omar')
  })

  it('I6 omar’s answer to maya’s request, sent from his own page, changes nothing', async () => {
    const omar = await other(browser, lend, { login: 'omar' })
    const hers = await app.start()
    await hers.ask({ items: [READ] })
    const maya = await lend.as('maya')
    const [request] = (await maya.get(`/access-requests?session_id=${hers.id}`, accessRequests))
      .items
    const body = JSON.stringify({
      digest: request?.digest,
      items: [{ id: request?.items[0]?.id, decision: 'allow_once' }],
    })
    const status = await omar.page.evaluate<number>(
      `fetch('/t/acme/api/access-requests/${request?.id}/decision', { method: 'POST',
        headers: { 'content-type': 'application/json' }, body: ${JSON.stringify(body)} })
        .then((answer) => answer.status)`,
    )
    expect(status).toBe(404)
    const now = await maya.get(`/access-requests/${request?.id}`, accessRequest)
    expect(now.status).toBe('pending')
  })
})

async function readUntil(stream: Response, wanted: string): Promise<string> {
  const reader = stream.body?.getReader()
  if (reader === undefined) throw new Error('the stream has no body')
  const decoder = new TextDecoder()
  let heard = ''
  while (!heard.includes(wanted)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`the stream ended: ${heard}`)
    heard += decoder.decode(value, { stream: true })
  }
  await reader.cancel()
  return heard
}
