import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hashSecret } from '../../src/tokens/client-auth.ts'
import {
  basic,
  type Credentials,
  type LiveServer,
  serveLend,
  type TokenAnswer,
} from '../support/live-server.ts'

/** `POST /t/{tenant}/enforce/data` (SPEC section 9): grants from the session, restrictions from the user. */
let lend: LiveServer
let point: Credentials
let session: TokenAnswer
const MAIL = { client_id: 'epc_mail', client_secret: 'of mail' }
const ROWS = { permission: 'accounts.rows:my_region' }

beforeAll(async () => {
  lend = await serveLend({ jobs: false })
  point = await lend.enforcementPoint()
  await lend.rows(
    `insert into enforcement_point (id, tenant_id, name, secret_hash, services, created_at)
     values ('epc_mail', $1, 'Mail', $2, '{mail}', now())`,
    [await lend.tenantId(), hashSecret(MAIL.client_secret)],
  )
})
beforeEach(async () => {
  session = await lend.start('maya')
})
afterEach(() => lend.endSessions('maya'))
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

type Part = { rows: object; fields: string[]; sql: { text: string; params: unknown[] } }
type Data = { reason: string; parts: Part[]; masked: string[]; blocked: object[]; ask?: object }

const post = (body: unknown, as: Credentials | null = point, tenant = 'acme') =>
  lend.request<Data>(`/t/${tenant}/enforce/data`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(as === null ? {} : { authorization: basic(as) }),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
const wanted = (more: object = {}) => ({
  token: session.access_token,
  entity: 'account',
  action: 'read',
  ...more,
})
const data = async (more: object = {}, as = point) => {
  const answer = await post(wanted(more), as)
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}
const borrow = (narrow?: object) =>
  lend.lend('maya', session.access_token, [{ ...ROWS, ...(narrow && { narrow }) }])

async function restrict(of: { blocks?: object; masks?: string[]; entity?: string }) {
  const { blocks, masks = [], entity = 'account' } = of
  await lend.rows(
    `insert into restriction (id, tenant_id, user_id, entity, blocks, masks, created_at)
     values ('rst_' || gen_random_uuid(), $1, $2, $3, $4::text::jsonb, $5::text[], now())`,
    [
      await lend.tenantId(),
      await lend.userId('maya'),
      entity,
      blocks === undefined ? null : JSON.stringify(blocks),
      masks,
    ],
  )
}
afterEach(() => lend.rows(`delete from restriction where user_id is not null`))

const UNMASKED = 'id name region owner segment renewal_date renewal_in_days arr'.split(' ')

describe('what is held', () => {
  it('nothing is no parts, so no rows, and says what to ask for', async () => {
    expect(await data()).toEqual({
      reason: 'not_held',
      message: expect.any(String),
      session_id: session.session_id,
      entity: 'account',
      action: 'read',
      parts: [],
      masked: ['phone'],
      blocked: [],
      ask: { tool: 'iam.request_access', items: [ROWS] },
    })
  })

  it('one part a grant, with the user’s own values and without what a mask hides', async () => {
    await borrow()
    const { parts, reason, masked } = await data()
    expect({ reason, masked }).toEqual({ reason: 'granted', masked: ['phone'] })
    expect(parts).toEqual([
      {
        grant_id: expect.stringMatching(/^grt_/),
        permission: ROWS.permission,
        rows: { region: 'emea' },
        fields: UNMASKED,
        sql: { text: '("region" = $1::text)', params: ['emea'] },
      },
    ])
  })

  it('two grants are two parts: neither rows nor fields of one meet the other’s', async () => {
    await borrow({ renewal_in_days: { $lte: 60 } })
    await borrow({ segment: 'enterprise' })
    const { parts } = await data()
    expect(parts.map((part) => part.rows)).toEqual([
      { $and: [{ region: 'emea' }, { renewal_in_days: { $lte: 60 } }] },
      { $and: [{ region: 'emea' }, { segment: 'enterprise' }] },
    ])
    expect(parts[0]?.sql).toEqual({
      text: '(("region" = $1::text and "renewal_in_days" <= $2::bigint))',
      params: ['emea', 60],
    })
  })

  it('another entity, or another action, is another thing', async () => {
    await borrow()
    for (const more of [{ entity: 'contract' }, { action: 'write' }, { action: 'admin' }])
      expect((await data(more)).parts).toEqual([])
    expect(await data({ entity: 'Account' })).toMatchObject({ reason: 'unknown_entity' })
    expect(await data({}, MAIL)).toMatchObject({ reason: 'unknown_entity', parts: [] })
  })

  it('is looked up live: lost by the user, frozen, ended', async () => {
    await borrow()
    const [lost] = await lend.rows<{ role_id: string; permission_id: string }>(
      `delete from role_permission where permission_id = $1 and role_id in
         (select id from role where tenant_id = $2) returning role_id, permission_id`,
      [ROWS.permission, await lend.tenantId()],
    )
    expect(await data()).toMatchObject({ reason: 'not_held', parts: [] })
    expect(await data()).not.toHaveProperty('ask')
    await lend.rows('insert into role_permission (role_id, permission_id) values ($1, $2)', [
      lost?.role_id ?? '',
      lost?.permission_id ?? '',
    ])
    expect((await data()).parts).toHaveLength(1)
    const thaw = await lend.freeze('user', await lend.userId('maya'))
    expect(await data()).toMatchObject({ reason: 'frozen', parts: [] })
    await thaw()
    await lend.endSessions('maya')
    expect(await data()).toMatchObject({ reason: 'session_over', parts: [] })
  })
})

describe('what the user is kept from', () => {
  it('rows that are blocked are cut from every part', async () => {
    await borrow({ renewal_in_days: { $lte: 60 } })
    await borrow()
    await restrict({ blocks: { owner: 'maya', arr: { $gt: 50_000 } } })
    await restrict({ blocks: { region: { $ne: { $user: 'region' } } } })
    const { parts, blocked } = await data()
    expect(blocked).toEqual([{ owner: 'maya', arr: { $gt: 50_000 } }, { region: { $ne: 'emea' } }])
    expect(parts).toHaveLength(2)
    for (const { sql } of parts) {
      expect(sql.text).toContain('"owner" = $')
      expect(sql.text.match(/is not true/g)).toHaveLength(2)
      expect(sql.params).toEqual(expect.arrayContaining(['maya', 50_000]))
    }
  })

  it('a block that cannot be told apart blocks everything', async () => {
    await borrow()
    await restrict({ blocks: { $or: [{ segment: 'small' }, { owner: { $user: 'nobody' } }] } })
    expect(await data()).toMatchObject({ reason: 'restricted', parts: [] })
  })

  it('masks always apply; a narrow over what is masked since shows nothing', async () => {
    await borrow({ arr: { $gt: 50_000 } })
    await borrow({ segment: 'small' })
    await restrict({ masks: ['arr', 'owner'] })
    const { parts, masked } = await data()
    expect(masked).toEqual(['arr', 'owner', 'phone'])
    expect(parts.map((part) => part.fields)).toEqual([
      UNMASKED.filter((field) => field !== 'arr' && field !== 'owner'),
    ])
    await restrict({ masks: ['*'] })
    const none = await data()
    expect(none).toMatchObject({ reason: 'restricted', parts: [] })
    expect(none.masked).toContain('*')
  })

  it('of another entity does not meet this one', async () => {
    await borrow()
    await restrict({ entity: 'contract', blocks: { id: { $ne: '' } }, masks: ['id'] })
    expect(await data()).toMatchObject({ masked: ['phone'], blocked: [], reason: 'granted' })
  })

  it('a user without the attribute sees nothing', async () => {
    await borrow()
    const maya = await lend.userId('maya')
    const [before] = await lend.rows<{ attributes: string }>(
      'select attributes::text from app_user where id = $1',
      [maya],
    )
    const set = (to: string) =>
      lend.rows('update app_user set attributes = $1::text::jsonb where id = $2', [to, maya])
    for (const attributes of [
      '{}',
      '{"region": null}',
      '{"region": ["emea"]}',
      '{"Region": "emea"}',
    ]) {
      await set(attributes)
      expect(await data()).toMatchObject({ reason: 'restricted', parts: [] })
    }
    await set('{"region": "x\' or true --"}')
    expect((await data()).parts[0]?.sql).toEqual({
      text: '("region" = $1::text)',
      params: ["x' or true --"],
    })
    await set(before?.attributes ?? '')
  })

  it('a catalog filter that is not understood shows nothing', async () => {
    await borrow()
    const [before] = await lend.rows<{ data: string }>(
      'select data::text from permission where id = $1',
      [ROWS.permission],
    )
    const set = (to: string) =>
      lend.rows('update permission set data = $1::text::jsonb where id = $2', [to, ROWS.permission])
    for (const rows of ['{}', '{"$or": []}', '{"region": {"$like": "%"}}', 'true', 'null']) {
      await set(`{"entity": "account", "fields": ["id"], "rows": ${rows}}`)
      expect(await data()).toMatchObject({ reason: 'restricted', parts: [] })
    }
    await set(before?.data ?? '')
  })
})

describe('who may ask, and about what', () => {
  it('enforcement points of the tenant, with their own secret', async () => {
    expect((await post(wanted(), null)).status).toBe(401)
    expect((await post(wanted(), { ...point, client_secret: 'guess' })).status).toBe(401)
    expect((await post(wanted(), await lend.agent())).status).toBe(403)
    expect((await post(wanted(), point, 'globex')).status).toBe(401)
    expect((await post(wanted(), point, 'nowhere')).status).toBe(404)
  })

  it('another tenant’s token shows nothing, asked from either (I17)', async () => {
    const theirs = await lend.start('gus')
    await lend.lend('gus', theirs.access_token, [ROWS])
    expect(await data({ token: theirs.access_token })).toMatchObject({
      reason: 'token_invalid',
      parts: [],
      masked: [],
    })
    await borrow()
    const there = await lend.enforcementPoint(undefined, 'globex')
    expect((await post(wanted(), there, 'globex')).body).toMatchObject({ parts: [] })
    await lend.endSessions('gus')
  })

  it('a token that is none, or whose name of a session is not signed, shows nothing', async () => {
    await borrow()
    const other = await lend.start('omar')
    const [head, , signature] = other.access_token.split('.')
    const forged = `${head}.${session.access_token.split('.')[1]}.${signature}`
    for (const token of ['x', 'a.b.c', forged, await lend.userToken('maya'), session.refresh_token])
      expect(await data({ token })).toMatchObject({ reason: 'token_invalid', parts: [] })
    await lend.endSessions('omar')
  })

  const NUL = String.fromCharCode(0)
  it.each<[string, object, string]>([
    ['no token', { token: undefined }, 'token'],
    ['an empty token', { token: '' }, 'token'],
    ['a token that is no text', { token: 7 }, 'token'],
    ['no entity', { entity: undefined }, 'entity'],
    ['an entity that is too long', { entity: 'x'.repeat(65) }, 'entity'],
    ['an entity with bidi', { entity: 'account\u202e' }, 'entity'],
    ['an entity with zero width', { entity: 'acc\u200bount' }, 'entity'],
    ['an entity with NUL', { entity: `account${NUL}` }, 'entity'],
    ['a list of entities', { entity: ['account'] }, 'entity'],
    ['an action that is none', { action: 'own' }, 'action'],
    ['no action', { action: undefined }, 'action'],
    ['an unknown member', { fields: ['phone'] }, ''],
  ])('%s is 400 and says where', async (_, more, path) => {
    const answer = await post(wanted(more))
    expect(answer).toMatchObject({ status: 400, body: { code: 'request_malformed' } })
    expect(answer.text).toContain(path)
    expect(answer.body).not.toHaveProperty('parts')
  })

  it('no JSON is 400, another type 415, too much 413', async () => {
    expect((await post('{')).status).toBe(400)
    expect((await post('')).status).toBe(400)
    expect((await post(wanted({ token: 'x'.repeat(200_000) }))).status).toBe(413)
  })
})
