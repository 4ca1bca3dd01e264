import type { Browser, Page, Route } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { session as sessionShape } from '../../src/demo/journey/people.ts'
import { openBrowser } from './support/chromium.ts'
import { showFailures } from './support/failures.ts'
import { Lend } from './support/lend.ts'
import { findingsOf, picture, THEMES, wideIn } from './support/looks.ts'
import { card, gone, press, seen, signedIn, startSession, type Window } from './support/person.ts'

/**
 * What each screen says when what it shows cannot be had, is slow, or is not there: what failed, whether it is the server or
 * the answer, the id to ask with, and a way on. Answers are changed on their way to the page; the server is the real one.
 */

const REQUEST_ID = 'req-for-the-admin'
const FAULT = {
  type: 'about:blank',
  title: 'Server error',
  status: 500,
  detail: 'Something failed on the server. Nothing was changed.',
  code: 'server_error',
  request_id: REQUEST_ID,
}
const fault = (route: Route) => route.fulfill({ status: 500, json: FAULT })
const down = (route: Route) => route.abort()
const answers = (json: object, status = 200) => {
  return (route: Route) => route.fulfill({ status, json })
}

let lend: Lend
let browser: Browser
let window: Window
let page: Page
let session: string

showFailures(() => ({ browser, lend }))

beforeAll(async () => {
  ;[lend, browser] = await Promise.all([Lend.start(), openBrowser()])
  window = await signedIn(browser, lend)
  page = window.page
  session = await startSession(lend, page)
  await seen(card(page))
})
afterEach(async () => {
  await page.unrouteAll({ behavior: 'ignoreErrors' })
})
afterAll(async () => {
  await browser?.close()
  await lend?.stop()
})

const SIZES = [
  { width: 1360, height: 900 },
  { width: 360, height: 740 },
]

/** A picture in both themes and both sizes, and what is wrong with them. */
async function looks(name: string, waits = false): Promise<void> {
  const wrong: string[] = []
  for (const size of SIZES) {
    await page.setViewportSize(size)
    // Another size may be another arrangement, which asks once more.
    if (!waits) await gone(page.locator('[aria-busy="true"]:visible'))
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme })
      await picture(page, `state-${name}-${theme}-${size.width}`)
      for (const one of await findingsOf(page)) wrong.push(`${theme} ${size.width}: ${one}`)
    }
    for (const one of await wideIn(page)) wrong.push(`${size.width}: ${one}`)
  }
  await page.setViewportSize(SIZES[0] ?? { width: 1360, height: 900 })
  expect(wrong).toEqual([])
}

type Failing = {
  readonly at: () => string
  readonly path: string | RegExp
  readonly says: string
}
const T = '**/t/acme/api'
const FAILING: Readonly<Record<string, Failing>> = {
  sessions: {
    at: () => '/sessions',
    path: /\/t\/acme\/api\/sessions\?/,
    says: 'Your sessions could not be loaded',
  },
  session: {
    at: () => `/sessions/${session}`,
    path: /\/t\/acme\/api\/sessions\/ses_[^/]+$/,
    says: 'This session could not be loaded',
  },
  access: {
    at: () => `/sessions/${session}`,
    path: `${T}/sessions/*/access`,
    says: 'What it holds could not be loaded',
  },
  conversation: {
    at: () => `/sessions/${session}`,
    path: /\/app\/t\/acme\/api\/runs\/ses_[^/]+$/,
    says: 'The conversation could not be loaded',
  },
  requests: {
    at: () => `/sessions/${session}`,
    path: /\/t\/acme\/api\/access-requests\?session_id/,
    says: 'What was asked could not be loaded',
  },
  approvals: {
    at: () => '/approvals',
    path: /\/t\/acme\/api\/access-requests\?status/,
    says: 'What waits could not be loaded',
  },
  approval: {
    at: () => '/approvals/req_anything',
    path: /\/t\/acme\/api\/access-requests\/req_/,
    says: 'The request could not be loaded',
  },
  rules: {
    at: () => '/rules',
    path: /\/t\/acme\/api\/rules/,
    says: 'Your rules could not be loaded',
  },
  agents: {
    at: () => '/agents',
    path: /\/t\/acme\/api\/sessions\?/,
    says: 'Your sessions could not be loaded',
  },
  app: {
    at: () => '/sessions',
    path: '**/app/t/acme/api/me',
    says: 'The agent’s app could not be asked what it offers',
  },
  me: { at: () => '/rules', path: `${T}/me`, says: 'This page could not be loaded' },
}

describe('what cannot be had', () => {
  for (const [name, { at, path, says }] of Object.entries(FAILING))
    it(`${name}: a fault is named with the id to ask with, silence is told from it, and trying again shows it`, async () => {
      await page.route(path, fault)
      await page.goto(lend.at(at()))
      await seen(page.getByText(says))
      await seen(page.getByText(FAULT.detail))
      await seen(page.getByText(REQUEST_ID))
      // What is not known can be ended all the same.
      if (name === 'access') await seen(page.getByRole('button', { name: 'End session' }))
      await looks(`${name}-fault`)
      await page.unroute(path)
      await page.route(path, down)
      await page.reload()
      await seen(page.getByText('The server cannot be reached'))
      if (name === 'me') await looks(`${name}-down`)
      await page.unroute(path)
      await page.getByRole('button', { name: 'Try again' }).first().click()
      await gone(page.getByText('The server cannot be reached'))
      await gone(page.getByText(says))
    })
})

describe('what is slow', () => {
  it('is shown as coming, and after five seconds said to be', async () => {
    let late = true
    await page.route(`${T}/rules?*`, async (route) => {
      while (late) await new Promise((soon) => setTimeout(soon, 100))
      await route.continue()
    })
    await page.goto(lend.at('/rules'))
    await seen(page.getByRole('heading', { name: 'Rules' }))
    await seen(page.locator('[aria-busy="true"]'))
    await seen(page.getByText('Still loading…'))
    await looks('rules-slow', true)
    late = false
    await seen(page.getByText('No rules'))
    await gone(page.getByText('Still loading…'))
  })
})

describe('what is not there', () => {
  it('no agent app, and no agent: each says what there is instead', async () => {
    await page.route('**/app/t/acme/api/me', answers({ code: 'not_found', detail: 'No.' }, 404))
    await page.goto(lend.at('/sessions'))
    await seen(page.getByText('No agent app runs here'))
    await seen(
      page.getByText('Sessions that other apps start for you are in your list of sessions.'),
    )
    await looks('no-app')
    await page.unroute('**/app/t/acme/api/me')
    await page.route('**/app/t/acme/api/me', answers({ signed_in: true, login: 'maya' }))
    await page.reload()
    await seen(page.getByText('No agent is set up for your organisation'))
    await looks('no-agent')
  })

  it('the app’s own sign-in has run out', async () => {
    await page.route('**/app/t/acme/api/me', answers({ signed_in: false }))
    await page.goto(lend.at('/sessions'))
    await seen(page.getByText('Sign in for the agent too'))
    await looks('app-sign-in')
  })

  it('a session that no app has taken up', async () => {
    const app = z.object({ agent: z.object({ id: z.string() }) })
    const { agent } = app.parse(
      await page.evaluate(`fetch('/app/t/acme/api/me').then((answer) => answer.json())`),
    )
    const maya = await lend.as('maya')
    const made = await maya.send('POST', '/sessions', sessionShape, {
      agent_id: agent.id,
      template: 'renewal-briefs',
      task: 'Prepare the briefs',
    })
    await page.goto(lend.at(`/sessions/${made.id}`))
    await seen(page.getByText('The agent has not taken this session up'))
    await looks('not-taken')
  })

  it('a session that is nobody’s: its pane does not stay in waiting', async () => {
    await page.goto(lend.at('/sessions/ses_00000000000000000000000000000000'))
    await seen(page.getByText('There is no such session'))
    await gone(page.locator('.pane-right [aria-busy="true"]'))
  })

  it('an address with nothing at it, and an organisation that is none', async () => {
    await page.goto(lend.at('/agents'))
    await page.evaluate(
      `history.pushState(null, '', '/t/acme/nothing'), dispatchEvent(new PopStateEvent('popstate'))`,
    )
    await seen(page.getByText('There is nothing at this address'))
    await looks('nowhere')
  })
})

describe('a write that fails', () => {
  it('says so beside what was being written, and keeps it', async () => {
    await page.route('**/decision', fault)
    await page.goto(lend.at(`/sessions/${session}`))
    await press(card(page).first(), /^Deny it goes on without/)
    await seen(card(page).first().getByText('Your answer was not taken.'))
    await seen(card(page).first().getByText(FAULT.detail))
    await seen(card(page).first().getByText(REQUEST_ID))
    // Not only somewhere on the card: where one has pressed, and in sight.
    const said = await card(page).first().getByText('Your answer was not taken.').boundingBox()
    const bar = await page.getByRole('region', { name: 'Waiting for your answer' }).boundingBox()
    expect(said?.y).toBeLessThan(bar?.y ?? 0)
    await looks('answer-fault')
    const busy = {
      ...FAULT,
      status: 429,
      code: 'rate_limited',
      detail: 'Too many at once.',
      retry_after: 90,
    }
    await page.route('**/decision', answers(busy, 429))
    await press(card(page).first(), /^Deny it goes on without/)
    await seen(
      card(page)
        .first()
        .getByText(/Too many at once\. It works again at \d\d:\d\d\./),
    )
    await page.route('**/messages', down)
    const box = page.getByRole('textbox', { name: 'Message to the agent' })
    await box.fill('Are you there?')
    await box.press('Enter')
    await seen(page.getByText('Not done.'))
    expect(await box.inputValue()).toBe('Are you there?')
  })
})

it('no page had a script error or anything that its policy had to stop', () => {
  expect(window.watch.problems).toEqual([])
})
