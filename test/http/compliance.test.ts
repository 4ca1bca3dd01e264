import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/compliance.ts'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { reportCalls } from '../../src/flows/report-calls.ts'
import type { Json } from '../support/people.ts'
import { type Admin, createAdmin, expectProblem, items, paths } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const listIn = (of: Json | undefined, name: string) => (of?.[name] ?? []) as Json[]

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const PRICING = { permission: 'contracts.fields:pricing' }
const DAY = 86_400

const trees = async (query = '', as: 'cleo' | 'maya' | 'omar' | 'gina' = 'cleo') =>
  items(await admin.get(`/activity/sessions${query}`, as))

const answer = async (decision: string, as: 'maya' | 'omar' = 'maya') => {
  const [request] = items(await admin.get('/access-requests?status=pending', as))
  const body = {
    digest: request?.digest,
    items: listIn(request, 'items')
      .filter((item) => item.outcome === 'pending')
      .map((item) => ({ id: item.id, decision })),
  }
  const answered = await admin.post(`/access-requests/${request?.id}/decision`, body, as)
  expect(answered.status).toBe(200)
}

/** Calls as an enforcement point reports them. */
async function called(session: SessionId, type: 'call.allowed' | 'call.denied', calls = 1) {
  const caller = {
    as: 'enforcement' as const,
    id: 'epc_test',
    tenant: admin.world.tenant('acme'),
    services: ['accounts'],
  }
  const call = {
    sessionId: session,
    permission: READ.permission,
    outcome: type === 'call.allowed' ? ('allowed' as const) : ('denied' as const),
    count: calls,
    at: admin.world.clock.now() / 1000,
  }
  await reportCalls(admin.world.ctx, caller, { calls: [call], lost: 0, key: undefined })
}

/** One session of Maya: one item by mode, one she allows, called seven times and refused once; and a subagent. */
async function lastWeek() {
  const first = await admin.world.start('maya', { mode: 'auto' })
  await admin.world.ask(first, [READ, PRICING])
  await answer('allow_once')
  admin.world.clock.advance(60)
  await called(first, 'call.allowed', 7)
  await called(first, 'call.denied')
  await admin.world.subagent(first)
  return first
}

const itemIn = (tree: Json | undefined, permission: string): Json | undefined =>
  listIn(tree, 'items').find((item) => item.permission === permission)

describe('what agents accessed, session by session', () => {
  test('is one call: asked, who decided and how, granted, called, subagents with it', async () => {
    const first = await lastWeek()
    const [tree, ...more] = await trees('?user=usr_maya')
    expect(more).toEqual([])
    expect(contract.treeSummary.safeParse(tree).error).toBeUndefined()
    expect(tree).toMatchObject({
      session: { id: first, user_id: 'usr_maya', mode: 'auto' },
      user: { id: 'usr_maya', login: 'maya' },
      subagents: 1,
      asked: 2,
      refused: 0,
      lost: 0,
      calls_allowed: 7,
      calls_denied: 1,
    })
    expect(itemIn(tree, READ.permission)).toMatchObject({
      asked: 1,
      granted: [
        { by: 'mode', n: 1 },
        { by: 'inherited', n: 1 },
      ],
      calls_allowed: 7,
      calls_denied: 1,
    })
    expect(itemIn(tree, PRICING.permission)).toMatchObject({
      sensitive: true,
      granted: [{ by: 'user', n: 1 }],
    })
  })

  const file = async (query: string, as: 'cleo' | 'maya' | 'gina' = 'cleo') => {
    const response = await admin.raw(as, 'GET', `/activity/sessions/export?${query}`)
    return { response, text: await response.text() }
  }
  const rowsOf = (csv: string) => {
    const [head = '', ...rows] = csv.trimEnd().split('\r\n')
    const cells = (row: string) =>
      [...row.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell = '']) => cell.replaceAll('""', '"'))
    return rows.map((row) =>
      Object.fromEntries(head.split(',').map((name, i) => [name, cells(row)[i] ?? ''])),
    )
  }

  test('the export has exactly the sessions of the list, for every filter and reader', async () => {
    await lastWeek()
    await admin.world.start('omar')
    await admin.world.start('gus')
    const queries: [string, 'cleo' | 'maya' | 'gina'][] = [
      ['', 'cleo'],
      ['user=usr_omar', 'cleo'],
      ['permission=accounts:read', 'cleo'],
      ['from=2026-11-30T09:00:30Z', 'cleo'],
      ['to=2020-01-01T00:00:00Z', 'cleo'],
      ['', 'maya'],
      ['', 'gina'],
    ]
    for (const [query, as] of queries) {
      const shown = await trees(`?${query}`, as as 'cleo')
      const { response, text } = await file(`${query}&format=ndjson`, as)
      expect(response.headers.get('Content-Disposition')).toMatch(/filename="sessions-.*\.ndjson"/)
      const lines = text.split('\n').filter(Boolean)
      expect(lines.map((line) => JSON.parse(line))).toEqual(shown)
      const rows = rowsOf((await file(`${query}&format=csv`, as)).text)
      expect(rows.map((row) => [row.session_id, row.permission, row.calls_allowed])).toEqual(
        shown.flatMap((tree) => {
          const id = (tree.session as Json).id
          const asked = listIn(tree, 'items')
          return asked.length === 0
            ? [[id, '', '']]
            : asked.map((item) => [id, item.permission, String(item.calls_allowed)])
        }),
      )
    }
    const [first] = rowsOf((await file('permission=accounts:read&format=csv')).text)
    expect(first).toMatchObject({
      ...{ login: 'maya', template: 'renewal-briefs', mode: 'auto', subagents: '1' },
      ...{ permission: 'accounts:read', asked: '1', granted: '1 mode; 1 inherited' },
      ...{ calls_allowed: '7', calls_denied: '1' },
    })
  })

  test('more sessions than a page are all in the file, each once, and it is recorded', async () => {
    await admin.world.start('maya')
    await admin.world.pg.query(`
      insert into session select (s.clone).* from (
        select jsonb_populate_record(one, jsonb_build_object('id', 'ses_x' || i, 'root_id', 'ses_x' || i,
          'created_at', one.created_at - make_interval(secs => i), 'refresh_hash', null)) as clone
        from session one, generate_series(1, 120) i) s`)
    const ids = (await file('format=ndjson')).text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).session.id)
    const listed: unknown[] = []
    let next: unknown = ''
    while (next !== undefined) {
      const cursor = next === '' ? '' : `&cursor=${next}`
      const { body } = await admin.get(`/activity/sessions?limit=50${cursor}`, 'cleo')
      listed.push(...listIn(body, 'items').map((tree) => (tree.session as Json).id))
      next = body.next
    }
    expect(listed).toHaveLength(121)
    expect(ids).toEqual(listed)
    const [record] = items(await admin.get('/activity?type=admin.changed', 'cleo'))
    expect(record).toMatchObject({
      user_id: 'usr_cleo',
      data: { what: 'sessions.exported', changes: { format: 'ndjson', filter: {} } },
    })
    for (const query of ['format=ocsf', '', 'format=csv&status=live'])
      expect((await file(query)).response.status).toBe(400)
  })

  test('tells a no from a rule, from silence and from what the person does not have', async () => {
    const session = await admin.world.start('maya')
    await admin.world.ask(session, [PRICING])
    await answer('deny')
    await admin.world.ask(session, [{ permission: 'dashboard:view', resource: 'dashboard/board' }])
    const [tree] = await trees()
    expect(itemIn(tree, PRICING.permission)).toMatchObject({
      granted: [],
      refused: [{ by: 'prompt', reason: 'denied_by_user', n: 1 }],
    })
    expect(itemIn(tree, 'dashboard:view')).toMatchObject({
      resource: 'dashboard/board',
      refused: [{ by: 'policy', reason: 'user_lacks_access', n: 1 }],
    })
  })

  test('a grant that was lost is counted, one that its session’s end took is not', async () => {
    const session = await admin.world.start('maya', { mode: 'bypass' })
    await admin.world.ask(session, [READ, ROWS])
    const { body } = await admin.get(`/sessions/${session}/access`, 'maya')
    const grant = items({ body } as never).find((g) => g.permission === READ.permission)
    await admin.remove(`/sessions/${session}/grants/${grant?.id}`, 'maya')
    await admin.post(`/sessions/${session}/end`, {}, 'maya')
    const [tree] = await trees()
    expect(tree).toMatchObject({ granted: 2, lost: 1 })
    expect(itemIn(tree, READ.permission)).toMatchObject({ ended: [{ reason: 'taken_back', n: 1 }] })
    expect(itemIn(tree, ROWS.permission)).toMatchObject({
      ended: [{ reason: 'session_over', n: 1 }],
    })
  })

  test('each filter narrows, and the period is of sessions that were live in it', async () => {
    const first = await lastWeek()
    admin.world.clock.advance(DAY)
    const second = await admin.world.start('omar', { template: 'board-notes' })
    const found = async (query: string) =>
      (await trees(query)).map((tree) => (tree.session as Json).id)
    expect(await found('')).toEqual([second, first])
    expect(await found('?user=usr_omar')).toEqual([second])
    expect(await found('?template=renewal-briefs')).toEqual([first])
    expect(await found('?template=nothing-such')).toEqual([])
    expect(await found('?agent=agt_other')).toEqual([])
    expect(await found('?permission=contracts.fields:pricing')).toEqual([first])
    expect(await found('?to=2026-11-30T10:00:00Z')).toEqual([first])
    // The first lived eight hours.
    expect(await found('?from=2026-11-30T16:00:00Z')).toEqual([second, first])
    expect(await found('?from=2026-11-30T18:00:00Z')).toEqual([second])
  })

  test('pages neither skip nor repeat', async () => {
    const made: SessionId[] = []
    for (let i = 0; i < 5; i++) {
      made.push(await admin.world.start('maya'))
      admin.world.clock.advance(1)
    }
    const seen: unknown[] = []
    let query = '?limit=2'
    for (;;) {
      const page = await admin.get(`/activity/sessions${query}`, 'cleo')
      seen.push(...items(page).map((tree) => (tree.session as Json).id))
      if (page.body.next === undefined) break
      query = `?limit=2&cursor=${page.body.next}`
    }
    expect(seen).toEqual([...made].reverse())
  })

  test('I17 people without a role see their own; nobody another tenant’s', async () => {
    await lastWeek()
    await admin.world.start('gus')
    expect(await trees('', 'omar')).toEqual([])
    expect((await trees('', 'maya')).length).toBe(1)
    expect((await trees('', 'cleo')).length).toBe(1)
    expect((await trees('', 'gina')).every((t) => (t.user as Json).login === 'gus')).toBe(true)
  })

  test.each([
    ['?from=yesterday', 'from'],
    ['?limit=51', 'limit'],
    ['?template=Renewal', 'template'],
    ['?nonsense=1', 'nonsense'],
    ['?cursor=abc', 'cursor'],
  ])('%s is refused and named', async (query, path) => {
    const refused = await admin.get(`/activity/sessions${query}`, 'cleo')
    expect(refused.status).toBe(400)
    expect(paths(refused)).toContain(path)
  })
})

describe('the timeline of a session', () => {
  test('has a lane for each session of the tree: records, grants with their ends, calls', async () => {
    const root = await lastWeek()
    await admin.post(`/sessions/${root}/end`, {}, 'maya')
    const { status, body } = await admin.get(`/activity/sessions/${root}/timeline`, 'cleo')
    expect(status).toBe(200)
    expect(contract.timeline.safeParse(body).error).toBeUndefined()
    const [lane, child] = body.lanes as Json[]
    expect(lane).toMatchObject({ session: { id: root } })
    expect(child).toMatchObject({ session: { parent_id: root } })
    expect(listIn(lane, 'records').map((r) => r.type)).toEqual([
      'session.started',
      'access.requested',
      'access.decided',
      'grant.created',
      'access.decided',
      'grant.created',
      'subagent.started',
      'grant.ended',
      'grant.ended',
      'session.ended',
    ])
    expect(lane?.grants).toMatchObject([
      { permission: READ.permission, by: 'mode', ended: 'session_over' },
      { permission: PRICING.permission, by: 'user', ended: 'session_over' },
    ])
    expect(child?.grants).toMatchObject([{ permission: READ.permission, by: 'inherited' }])
    expect(lane?.calls).toMatchObject([{ permission: READ.permission, allowed: 7, denied: 1 }])
    expect(body.truncated).toBe(false)
  })

  test('is of those who may read it, and of root sessions', async () => {
    const root = await lastWeek()
    const url = `/activity/sessions/${root}/timeline`
    expect((await admin.get(url, 'maya')).status).toBe(200)
    expectProblem(await admin.get(url, 'omar'), 404, 'session_not_found')
    expectProblem(await admin.get(url, 'gina'), 404, 'session_not_found')
    expectProblem(
      await admin.get('/activity/sessions/ses_none/timeline', 'cleo'),
      404,
      'session_not_found',
    )
  })
})

describe('one record', () => {
  const recordOf = async (type: string, permission: string) =>
    items(await admin.get(`/activity?type=${type}&permission=${permission}`, 'cleo'))[0]

  test('says which layer and rule decided, and that its place in the chain holds', async () => {
    const rule = await admin.post(
      '/rules',
      { template: 'renewal-briefs', ...READ, effect: 'allow' },
      'maya',
    )
    const session = await admin.world.start('maya')
    await admin.world.ask(session, [READ])
    const record = await recordOf('access.decided', READ.permission)
    const { body } = await admin.get(`/activity/${record?.id}`, 'cleo')
    expect(contract.recordDetail.safeParse(body).error).toBeUndefined()
    expect(body).toMatchObject({
      record,
      decision: {
        layer: 'allow_rule',
        reason: 'allow_rule',
        says: 'A rule of the person allows it without a question.',
        rule: { id: rule.body.id, effect: 'allow', status: 'active' },
      },
      chain: { ok: true },
    })
    expect((body.chain as Json).prev_id).toBeDefined()
    expectProblem(await admin.get(`/activity/${record?.id}`, 'omar'), 404, 'not_found')
    expectProblem(await admin.get(`/activity/${record?.id}`, 'gina'), 404, 'not_found')
  })

  test('that was changed behind Lend’s back shows it, and so does its successor’s link', async () => {
    const session = await admin.world.start('maya', { mode: 'bypass' })
    await admin.world.ask(session, [READ])
    const record = await recordOf('access.decided', READ.permission)
    await admin.world.pg.exec('alter table activity disable trigger activity_is_append_only')
    await admin.world.pg.query(
      `update activity set data = jsonb_set(data, '{reason}', '"allow_rule"') where id = $1`,
      [record?.id as string],
    )
    const changed = await admin.get(`/activity/${record?.id}`, 'cleo')
    expect(changed.body.chain).toMatchObject({ ok: false, problem: 'altered' })
    await admin.world.pg.query('delete from activity where id = $1', [record?.id as string])
    const [next] = items(await admin.get('/activity?type=grant.created', 'cleo'))
    const after = await admin.get(`/activity/${next?.id}`, 'cleo')
    expect(after.body.chain).toMatchObject({ ok: false, problem: 'missing_before' })
  })
})

describe('reviews', () => {
  const reviews = async (query = '') => (await admin.get(`/reviews${query}`, 'cleo')).body

  test('a rule unused for 90 days is found, one that was used is not; taking it away asks again', async () => {
    const made = await admin.post(
      '/rules',
      { template: 'renewal-briefs', ...READ, effect: 'allow' },
      'maya',
    )
    const used = await admin.post(
      '/rules',
      { template: 'renewal-briefs', ...ROWS, effect: 'allow' },
      'maya',
    )
    admin.world.clock.advance(80 * DAY)
    await admin.world.ask(await admin.world.start('maya'), [ROWS])
    expect((await reviews()).unused_rules).toEqual([])
    admin.world.clock.advance(11 * DAY)
    const found = await reviews()
    expect(contract.reviews.safeParse(found).error).toBeUndefined()
    expect(found.unused_rules).toMatchObject([
      { id: made.body.id, user: { login: 'maya' }, permission: READ.permission },
    ])
    expect((await reviews('?days=366')).unused_rules).toEqual([])
    expect((await admin.remove(`/reviews/rules/${made.body.id}`, 'adam')).status).toBe(204)
    expect((await reviews()).unused_rules).toEqual([])
    expect(items(await admin.get('/rules', 'maya')).map((rule) => rule.id)).toEqual([used.body.id])
    const [deleted] = (await admin.records('rule.deleted')) as Json[]
    expect(deleted).toMatchObject({
      user_id: 'usr_maya',
      data: { rule_id: made.body.id, by: 'usr_adam' },
    })
    expectProblem(await admin.remove(`/reviews/rules/${made.body.id}`, 'adam'), 404, 'not_found')
  })

  test('an admin cannot take a person’s deny rule away, nor a rule of another tenant', async () => {
    const deny = await admin.post(
      '/rules',
      { template: 'renewal-briefs', ...READ, effect: 'deny' },
      'maya',
    )
    const allow = await admin.post(
      '/rules',
      { template: 'renewal-briefs', ...ROWS, effect: 'allow' },
      'maya',
    )
    const before = await admin.state()
    expectProblem(await admin.remove(`/reviews/rules/${deny.body.id}`, 'adam'), 404, 'not_found')
    expectProblem(await admin.remove(`/reviews/rules/${allow.body.id}`, 'gina'), 404, 'not_found')
    expect(await admin.state()).toBe(before)
  })

  test('a template whose people say yes to everything is named, until one says no', async () => {
    for (let i = 0; i < 10; i++) {
      await admin.world.ask(await admin.world.start('maya'), [PRICING])
      await answer('allow_once')
    }
    expect((await reviews()).never_refused).toMatchObject([
      { template: 'renewal-briefs', answered: 10 },
    ])
    await admin.world.ask(await admin.world.start('maya'), [PRICING])
    await answer('deny')
    expect((await reviews()).never_refused).toEqual([])
  })

  test('what is granted again and again and never called is found, and one call narrows it away', async () => {
    let last: SessionId | undefined
    for (let i = 0; i < 3; i++) {
      last = await admin.world.start('maya', { mode: 'bypass' })
      await admin.world.ask(last, [READ, ROWS])
    }
    if (last !== undefined) await called(last, 'call.allowed')
    expect((await reviews()).never_used).toMatchObject([
      { template: 'renewal-briefs', permission: ROWS.permission, granted: 3, sessions: 3 },
    ])
    const narrowed = await admin.post('/enablements/renewal-briefs/narrow', { remove: [ROWS] })
    expect(narrowed.status).toBe(200)
    expect((narrowed.body.kept as Json[]).some((i) => i.permission === ROWS.permission)).toBe(false)
    expect((narrowed.body.kept as Json[]).some((i) => i.permission === READ.permission)).toBe(true)
    expect(narrowed.body.widens).toBe(false)
    const again = await admin.post('/enablements/renewal-briefs/narrow', { remove: [ROWS] })
    expectProblem(again, 422, 'unprocessable', 'remove.0')
    expectProblem(
      await admin.post('/enablements/renewal-briefs/narrow', { remove: [ROWS] }, 'cleo'),
      403,
      'forbidden',
    )
    expectProblem(
      await admin.post('/enablements/nothing-such/narrow', { remove: [ROWS] }),
      404,
      'not_found',
    )
  })
})

describe('consent health', () => {
  test('counts prompts a session, how they ended, and how long people took', async () => {
    const health = async () => (await admin.get('/consent-health', 'cleo')).body
    expect((await health()).all).toMatchObject({
      sessions: 0,
      prompts: 0,
      prompts_per_session: null,
      approve_rate: null,
      seconds_to_decide: null,
    })
    const takes = async (seconds: number, decision: string | null) => {
      const session = await admin.world.start('maya')
      await admin.world.ask(session, [PRICING])
      admin.world.clock.advance(seconds)
      if (decision !== null) await answer(decision)
      else await admin.post(`/sessions/${session}/end`, {}, 'maya')
    }
    await takes(10, 'allow_once')
    await takes(20, 'allow_once')
    await takes(30, 'deny')
    await takes(1000, null)
    const found = await health()
    expect(contract.consentHealth.safeParse(found).error).toBeUndefined()
    const expected = {
      sessions: 4,
      prompts: 4,
      prompts_per_session: 1,
      allowed: 2,
      denied: 1,
      expired: 0,
      cancelled: 1,
      refused_at_answer: 0,
      approve_rate: 2 / 3,
      seconds_to_decide: { median: 20, p90: 28 },
    }
    expect(found.all).toEqual(expected)
    expect(found.templates).toMatchObject([{ template: 'renewal-briefs', ...expected }])
    admin.world.clock.advance(40 * DAY)
    expect((await health()).all).toMatchObject({ sessions: 0, prompts: 0 })
  })
})
