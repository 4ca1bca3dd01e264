import { request as httpRequest } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  ACCESS_TOKEN,
  type Answer,
  type Body,
  basic,
  type Credentials,
  type Form,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
} from '../support/live-server.ts'
import { expectRefused, written } from '../support/oauth-client.ts'

/** Bad input at each OAuth route: refused by name, with nothing written. */

type Endpoint = 'token' | 'introspect' | 'revoke'

let lend: LiveServer
let agent: Credentials
let point: Credentials
let subject: string

beforeAll(async () => {
  lend = await serveLend({ jobs: false })
  agent = await lend.agent()
  point = await lend.enforcementPoint()
  subject = await lend.userToken('maya', 'app')
})
afterEach(() => expect(lend.bugs).toEqual([]))
afterAll(() => lend.close())

const whoMay = (endpoint: Endpoint) => (endpoint === 'introspect' ? point : agent)
const ENDPOINTS: readonly Endpoint[] = ['token', 'introspect', 'revoke']

const startForm = (): Record<string, string> => ({
  grant_type: TOKEN_EXCHANGE,
  subject_token: subject,
  subject_token_type: ACCESS_TOKEN,
  template: 'renewal-briefs',
})
const goodForm = (endpoint: Endpoint): Record<string, string> =>
  endpoint === 'token' ? startForm() : { token: 'x' }

const MALFORMED = { error: 'invalid_request', reason: 'request_malformed' }
const TOO_LARGE = { status: 413, error: 'invalid_request', reason: 'body_too_large' }

async function nothingWritten<T>(answer: () => Promise<T>): Promise<T> {
  const before = await written(lend)
  const answered = await answer()
  expect(await written(lend)).toStrictEqual(before)
  return answered
}

/** A body as it is on the wire. */
const post = (
  endpoint: Endpoint,
  body: NonNullable<RequestInit['body']>,
  headers: Record<string, string> = {},
): Promise<Answer> =>
  lend.request(`/t/acme/oauth/${endpoint}`, {
    method: 'POST',
    headers: {
      authorization: basic(whoMay(endpoint)),
      'content-type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    body,
  })

describe.each(ENDPOINTS)('the form of %s', (endpoint) => {
  it.each([
    ['application/json', (form: Record<string, string>) => JSON.stringify(form)],
    ['text/plain', (form: Record<string, string>) => new URLSearchParams(form).toString()],
    ['application/x-www-form-urlencodedx', (form) => new URLSearchParams(form).toString()],
    ['', (form) => new URLSearchParams(form).toString()],
    ['multipart/form-data; boundary=x', () => '--x--'],
  ] as [string, (form: Record<string, string>) => string][])('is not %s', async (type, body) => {
    const answer = await nothingWritten(() =>
      post(endpoint, body(goodForm(endpoint)), { 'content-type': type }),
    )
    expectRefused(answer, { ...MALFORMED, says: /application\/x-www-form-urlencoded/ })
  })

  it('may name its charset', async () => {
    const type = 'Application/X-WWW-Form-URLencoded; charset=UTF-8'
    const body = new URLSearchParams(goodForm(endpoint)).toString()
    expect((await post(endpoint, body, { 'content-type': type })).status).toBe(200)
    await lend.endSessions('maya')
  })

  it('has no parameter twice, which one is said', async () => {
    const names = endpoint === 'token' ? Object.keys(startForm()) : ['token']
    for (const name of [...names, 'client_id', 'unheard_of']) {
      const form: Form = { ...goodForm(endpoint), [name]: ['a', 'a'] }
      const answer = await nothingWritten(() => lend.oauth(endpoint, form, whoMay(endpoint)))
      expectRefused(answer, { ...MALFORMED, says: new RegExp(`${name} is sent more than once`) })
    }
  })

  it('is bounded: what is larger is refused, whether or not it says so first', async () => {
    const big = `${new URLSearchParams(goodForm(endpoint))}&padding=${'x'.repeat(64 * 1024)}`
    const huge = `token=${'x'.repeat(8 * 1024 * 1024)}`
    for (const body of [big, huge]) {
      expectRefused(await nothingWritten(() => post(endpoint, body)), {
        ...TOO_LARGE,
        says: /larger than 65536 bytes/,
      })
      const chunked = await nothingWritten(() => chunkedPost(endpoint, body))
      expect(chunked).toMatchObject({ status: 413, body: { error: 'invalid_request' } })
    }
    // The connection, or the next one, still serves.
    expect((await lend.request('/livez')).status).toBe(200)
  })

  it('is text: control characters and what is not UTF-8 are refused by name', async () => {
    const name = endpoint === 'token' ? 'task' : 'token'
    const rest = new URLSearchParams({ ...goodForm(endpoint), [name]: '' })
    rest.delete(name)
    const bad: [string, RegExp][] = [
      ['a%00b', /has a control character/],
      ['a%1Bb', /has a control character/],
      ['a%7Fb', /has a control character/],
      ['a%C2%85b', /has a control character/],
      ['%ED%A0%80', /is not percent-encoded UTF-8/],
      ['%FF', /is not percent-encoded UTF-8/],
      ['%C0%AF', /is not percent-encoded UTF-8/],
      ['100%', /is not percent-encoded UTF-8/],
      ['%zz', /is not percent-encoded UTF-8/],
    ]
    for (const [value, why] of bad) {
      const answer = await nothingWritten(() => post(endpoint, `${rest}&${name}=${value}`))
      expectRefused(answer, { ...MALFORMED, says: new RegExp(`${name} ${why.source}`) })
    }
    const raw = Buffer.concat([Buffer.from(`${rest}&${name}=`), Buffer.from([0xff, 0xfe])])
    expectRefused(await nothingWritten(() => post(endpoint, raw)), { ...MALFORMED, says: /UTF-8/ })
  })

  it('is not read from the address', async () => {
    const query = new URLSearchParams(goodForm(endpoint))
    const answer = await nothingWritten(() =>
      lend.request(`/t/acme/oauth/${endpoint}?${query}`, {
        method: 'POST',
        headers: {
          authorization: basic(whoMay(endpoint)),
          'content-type': 'application/x-www-form-urlencoded',
        },
      }),
    )
    expectRefused(answer, { ...MALFORMED, says: /is required/ })
  })

  it('is posted: no other method does anything', async () => {
    const query = new URLSearchParams({ ...goodForm(endpoint), ...whoMay(endpoint) })
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const answer = await nothingWritten(() =>
        lend.request(`/t/acme/oauth/${endpoint}?${query}`, { method }),
      )
      expect([404, 405]).toContain(answer.status)
    }
  })

  it('says back nothing of a hostile name but printable ASCII', async () => {
    const hostile = `"><script>\\${'\u202e'}é`
    const answer = await lend.oauth(
      endpoint,
      { ...goodForm(endpoint), [hostile]: ['a', 'b'] },
      whoMay(endpoint),
    )
    expectRefused(answer, MALFORMED)
  })
})

describe('what each grant needs', () => {
  it('is named when it is missing or empty', async () => {
    const session = await lend.start('maya')
    const refresh = { grant_type: 'refresh_token', refresh_token: session.refresh_token }
    const cases: [Record<string, string>, string[]][] = [
      [startForm(), ['grant_type', 'subject_token', 'subject_token_type', 'template']],
      [refresh, ['grant_type', 'refresh_token']],
    ]
    for (const [form, required] of cases)
      for (const name of required)
        for (const value of [undefined, '']) {
          const answer = await nothingWritten(() => lend.token({ ...form, [name]: value }, agent))
          expectRefused(answer, {
            ...MALFORMED,
            says: new RegExp(`${name} is required|${name} must`),
          })
        }
    for (const [endpoint, credentials] of [
      ['introspect', point],
      ['revoke', agent],
    ] as const)
      expectRefused(await lend.oauth(endpoint, {}, credentials), {
        ...MALFORMED,
        says: /token is required/,
      })
    await lend.endSessions('maya')
  })

  it('is of the right type: another token type, an actor token or another wish is refused by name', async () => {
    const type = 'urn:ietf:params:oauth:token-type:'
    const cases: [Form, Parameters<typeof expectRefused>[1]][] = [
      [{ subject_token_type: `${type}id_token` }, { ...MALFORMED, says: /subject_token_type/ }],
      [
        { subject_token_type: `${type}refresh_token` },
        { ...MALFORMED, says: /subject_token_type/ },
      ],
      [{ subject_token_type: 'access_token' }, { ...MALFORMED, says: /subject_token_type/ }],
      [
        { requested_token_type: `${type}refresh_token` },
        { ...MALFORMED, says: /requested_token_type/ },
      ],
      [{ requested_token_type: `${type}id_token` }, { ...MALFORMED, says: /requested_token_type/ }],
      [
        { actor_token: 'x', actor_token_type: ACCESS_TOKEN },
        { ...MALFORMED, says: /actor_token/ },
      ],
      [{ actor_token_type: ACCESS_TOKEN }, { ...MALFORMED, says: /actor_token_type/ }],
      [
        { scope: 'accounts:read' },
        { error: 'invalid_scope', reason: 'scope_not_requested', says: /scope/ },
      ],
      [
        { audience: 'accounts' },
        { error: 'invalid_target', reason: 'target_invalid', says: /audience/ },
      ],
      [
        { resource: 'nope' },
        { error: 'invalid_target', reason: 'target_invalid', says: /resource/ },
      ],
      [{ mode: 'bypass' }, { error: 'invalid_request', reason: 'mode_not_allowed', says: /mode/ }],
      [{ task: 'x'.repeat(501) }, { ...MALFORMED, says: /task/ }],
    ]
    for (const [form, refusal] of cases)
      expectRefused(
        await nothingWritten(() => lend.token({ ...startForm(), ...form }, agent)),
        refusal,
      )
  })

  it('takes an access token typed jwt, and optional parameters that are empty as left out', async () => {
    const jwt = 'urn:ietf:params:oauth:token-type:jwt'
    const empty = { task: '', mode: '', resource: '', scope: '', session_id: '', audience: '' }
    const asked = { requested_token_type: ACCESS_TOKEN, subject_token_type: jwt, actor_token: '' }
    const answer = await lend.token({ ...startForm(), ...empty, ...asked }, agent)
    expect(answer.status, answer.text).toBe(200)
    const [row] = await lend.rows('select task, mode from session where id = $1', [
      answer.body.session_id,
    ])
    expect(row).toEqual({ task: null, mode: 'ask' })
    await lend.endSessions('maya')
  })

  it('ignores what it does not know (RFC 6749 section 3.2)', async () => {
    const answer = await lend.token({ ...startForm(), unheard_of: 'x' }, agent)
    expect(answer.status).toBe(200)
    await lend.endSessions('maya')
  })
})

describe('SQL and paths in a value', () => {
  it('are only text', async () => {
    const texts = [
      `'; drop table session; --`,
      '%27%20or%201=1',
      '../../etc/passwd',
      '{{7*7}}',
      '\\u0000',
    ]
    for (const text of texts) {
      for (const name of ['template', 'session_id', 'subject_token', 'resource', 'grant_type'])
        expect((await lend.token({ ...startForm(), [name]: text }, agent)).status, name).toBe(400)
      const kept = await lend.token({ ...startForm(), task: text }, agent)
      expect(kept.status).toBe(200)
      const [row] = await lend.rows<Body>('select task from session where id = $1', [
        kept.body.session_id,
      ])
      expect(row?.task).toBe(text)
    }
    await lend.endSessions('maya')
  })
})

/** Without Content-Length, so that the server has to count. The answer may come before all is sent. */
function chunkedPost(
  endpoint: Endpoint,
  body: string,
): Promise<{ readonly status: number; readonly body: Body }> {
  return new Promise((resolve, reject) => {
    const url = new URL(`${lend.origin}/t/acme/oauth/${endpoint}`)
    const headers = {
      authorization: basic(whoMay(endpoint)),
      'content-type': 'application/x-www-form-urlencoded',
      'transfer-encoding': 'chunked',
    }
    let answered = false
    const req = httpRequest(url, { method: 'POST', headers }, (res) => {
      answered = true
      let text = ''
      res.on('data', (chunk) => {
        text += chunk
      })
      res.on('end', () => {
        resolve({ status: res.statusCode ?? 0, body: JSON.parse(text) })
        req.destroy()
      })
    })
    req.on('error', (error) => {
      if (!answered) reject(error)
    })
    req.end(body)
  })
}
