import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/activity.ts'
import type { ActivityRecord } from '../../src/core/activity.ts'
import { csvCell } from '../../src/flows/read-activity.ts'
import { verifyRecords } from '../../src/flows/verify-activity.ts'
import type { Json } from '../support/people.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const READ = { permission: 'accounts:read' }
const ROWS = { permission: 'accounts.rows:my_region' }
const BOARD = { permission: 'dashboard:view', resource: 'dashboard/board' }

/** Two sessions of Maya, one of Omar, one in another tenant, and two changes of an admin, ten minutes apart. */
async function week() {
  const first = await admin.world.start('maya', { mode: 'bypass' })
  await admin.world.ask(first, [READ, ROWS])
  admin.world.clock.advance(600)
  const second = await admin.world.start('maya', { template: 'board-notes', mode: 'bypass' })
  await admin.world.ask(second, [READ])
  const omars = await admin.world.start('omar', { mode: 'bypass' })
  await admin.world.ask(omars, [BOARD])
  const guss = await admin.world.start('gus')
  admin.world.clock.advance(600)
  await admin.patch('/admin/users/usr_maya', { name: 'Maya M' })
  await admin.patch('/admin/agents/agt_briefs', { app_clients: ['agent-app', 'second-app'] })
  return { first, second, omars, guss }
}

const list = async (query = '', as: 'adam' | 'cleo' | 'maya' | 'gina' = 'cleo') =>
  items(await admin.get(`/activity${query}`, as))
const exported = async (query: string, as: 'cleo' | 'maya' = 'cleo') => {
  const response = await admin.raw(as, 'GET', `/activity/export?${query}`)
  return { response, text: await response.text() }
}
const lines = (text: string): ActivityRecord[] =>
  text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

describe('the record', () => {
  test('is shown newest first, in the shape that was hashed', async () => {
    await week()
    const all = await list()
    for (const record of all)
      expect(contract.activityRecord.safeParse(record).error).toBeUndefined()
    expect(all.map((r) => r.type)).toEqual([
      'admin.changed',
      'admin.changed',
      'access.decided',
      'access.requested',
      'session.started',
      'grant.created',
      'access.decided',
      'access.requested',
      'session.started',
      'grant.created',
      'grant.created',
      'access.decided',
      'access.decided',
      'access.requested',
      'session.started',
    ])
    expect(verifyRecords([...all].reverse() as unknown as ActivityRecord[])).toEqual({
      ok: true,
      chains: 4,
      records: all.length,
      problems: [],
    })
  })

  test('pages neither skip nor repeat, whatever is written meanwhile', async () => {
    await week()
    const whole = await list()
    const seen: unknown[] = []
    let query = '?limit=4'
    for (;;) {
      const answer = await admin.get(`/activity${query}`, 'cleo')
      seen.push(...items(answer).map((r) => r.id))
      await admin.patch('/admin/users/usr_omar', { name: `Omar ${seen.length}` })
      if (answer.body.next === undefined) break
      query = `?limit=4&cursor=${answer.body.next}`
    }
    expect(seen).toEqual(whole.map((r) => r.id))
  })

  test('each filter narrows to what it names, and together to what all name', async () => {
    const { first, second, omars } = await week()
    const sessionsOf = async (query: string) => [
      ...new Set((await list(query)).map((r) => r.session_id)),
    ]
    expect(await sessionsOf(`?session=${second}`)).toEqual([second])
    expect(await sessionsOf(`?root=${first}`)).toEqual([first])
    expect(await sessionsOf('?user=usr_omar')).toEqual([omars])
    expect(await sessionsOf('?agent=agt_briefs')).toEqual([undefined, omars, second, first])
    expect(await sessionsOf('?template=renewal-briefs')).toEqual([omars, first])
    expect(await sessionsOf('?template=renewal-briefs@3')).toEqual([omars, first])
    expect(await sessionsOf('?template=renewal-briefs@2')).toEqual([])
    expect(await sessionsOf('?template=renewal')).toEqual([])
    expect(await sessionsOf('?permission=accounts.rows:my_region')).toEqual([first])
    expect(await sessionsOf('?permission=accounts:read&user=usr_maya')).toEqual([second, first])
    expect((await list('?type=admin.changed')).length).toBe(2)
    expect((await list('?type=session.started,admin.changed')).length).toBe(5)
    expect(await sessionsOf('?to=2026-11-30T09:10:00Z')).toEqual([first])
    expect(await sessionsOf('?from=2026-11-30T09:10:00Z&to=2026-11-30T09:20:00Z')).toEqual([
      omars,
      second,
    ])
    // Named in a request's items, though the decision's own record names it too.
    expect((await list(`?permission=accounts.rows:my_region&type=access.requested`)).length).toBe(1)
  })

  test('I17 shows no other tenant’s, to anybody', async () => {
    const { guss } = await week()
    expect((await list()).some((r) => r.tenant_id !== 'ten_acme')).toBe(false)
    expect(await list(`?session=${guss}`)).toEqual([])
    expect((await list('', 'gina')).map((r) => r.session_id)).toEqual([guss])
  })

  test('shows people without a role only what names them, whatever they ask for', async () => {
    const { omars } = await week()
    const mine = await list('', 'maya')
    expect(mine.length).toBeGreaterThan(5)
    expect(new Set(mine.map((r) => r.user_id))).toEqual(new Set(['usr_maya']))
    expect(await list('?user=usr_omar', 'maya')).toEqual([])
    expect(await list(`?session=${omars}`, 'maya')).toEqual([])
    const { text } = await exported('format=ndjson', 'maya')
    expect(new Set(lines(text).map((r) => r.user_id))).toEqual(new Set(['usr_maya']))
  })

  test.each([
    ['?from=yesterday', 'from'],
    ['?to=2026-11-30', 'to'],
    ['?type=nothing', 'type'],
    ['?type=session.started,nothing', 'type'],
    ['?type=session.started,', 'type'],
    ['?template=Renewal%20Briefs', 'template'],
    ['?cursor=xyz', 'cursor'],
    ['?limit=201', 'limit'],
    ['?session=', 'session'],
    [`?user=${'x'.repeat(65)}`, 'user'],
    ['?user=a&user=b', 'user'],
    ['?permission=a%00', 'permission'],
    ['?outcome=granted', 'outcome'],
  ])('refuses %s: a filter that is not understood would show too much', async (query, path) => {
    expectProblem(await admin.get(`/activity${query}`, 'cleo'), 400, 'request_malformed', path)
    expectProblem(
      await admin.get(`/activity/export${query}&format=csv`, 'cleo'),
      400,
      'request_malformed',
      path === 'limit' || path === 'cursor' ? path : path,
    )
  })
})

describe('the export (U21)', () => {
  test('has exactly the records of the list, for every filter, and verifies offline', async () => {
    const { first } = await week()
    const queries = ['', `session=${first}`, 'user=usr_omar', 'type=grant.created']
    for (const query of queries) {
      const shown = await list(`?${query}`)
      const { response, text } = await exported(`${query}&format=ndjson`)
      expect(response.headers.get('Content-Type')).toBe('application/x-ndjson')
      expect(lines(text)).toEqual([...shown].reverse())
      const whole = !query.startsWith('type')
      const offline = verifyRecords(lines(text), { extract: !whole })
      expect(offline).toMatchObject({ ok: true, records: shown.length })
    }
  })

  test('was itself recorded before it left, with its filter', async () => {
    await week()
    await exported('user=usr_maya&format=csv')
    const [last] = await list('?type=admin.changed')
    expect(last).toMatchObject({
      user_id: 'usr_cleo',
      data: {
        what: 'activity.exported',
        by: 'usr_cleo',
        changes: { format: 'csv', filter: { user: 'usr_maya' } },
      },
    })
  })

  test('as OCSF has the same records, each with what its hash is checked by', async () => {
    await week()
    const whole = lines((await exported('format=ndjson&user=usr_maya')).text)
    const { response, text } = await exported('format=ocsf&user=usr_maya')
    expect(response.headers.get('Content-Disposition')).toContain('activity-acme.ocsf.ndjson')
    const events = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { unmapped: { record: ActivityRecord } })
    expect(events.map((event) => event.unmapped.record)).toEqual(whole)
    expect(verifyRecords(events.map((event) => event.unmapped.record)).ok).toBe(true)
  })

  test('as CSV is quoted, and no cell is a formula', async () => {
    const { first } = await week()
    const { response, text } = await exported(`session=${first}&format=csv`)
    expect(response.headers.get('Content-Disposition')).toBe(
      'attachment; filename="activity-acme.csv"',
    )
    const [head, ...rows] = text.trim().split('\r\n')
    expect(head).toBe(
      'id,tenant_id,seq,at,type,agent_id,user_id,session_id,root_session_id,template,data,prev_hash,hash',
    )
    expect(rows).toHaveLength((await list(`?session=${first}`)).length)
    expect(rows[0]).toMatch(
      /^"act_[0-9a-f]+","ten_acme","1","2026-11-30T09:00:00.000Z","session.started"/,
    )
    expect(rows[0]).toContain('""mode"":""bypass""')
  })

  test.each([
    ['=1+1', `"'=1+1"`],
    ['+1', `"'+1"`],
    ['-1', `"'-1"`],
    ['@SUM(A1)', `"'@SUM(A1)"`],
    ['\t=1', `"'\t=1"`],
    ['＝1', `"'＝1"`],
    ['say "hi"', '"say ""hi"""'],
    ['plain', '"plain"'],
    [undefined, '""'],
    [3, '"3"'],
  ])('writes the cell %j as %s', (value, cell) => {
    expect(csvCell(value)).toBe(cell)
  })

  test('streams page by page, and is a moment’s picture', async () => {
    await admin.world.start('maya')
    await admin.world.pg.query(`
      insert into activity (id, tenant_id, chain, seq, at, type, data, prev_hash, hash)
      select 'act_f' || i, 'ten_acme', 'ten_acme', i, '2026-11-30T09:00:00Z', 'login.succeeded', '{}', 'p', 'h'
      from generate_series(1, 2500) i`)
    await admin.world.pg.query(
      `update tenant_chain set seq = 2500, hash = 'h' where tenant_id = 'ten_acme'`,
    )
    const response = await admin.raw('cleo', 'GET', '/activity/export?format=ndjson')
    const reader = response.body?.getReader()
    const first = await reader?.read()
    const text = new TextDecoder()
    let all = text.decode(first?.value)
    expect(all.trim().split('\n')).toHaveLength(1000)
    // Written after the first page: not in the picture.
    await admin.patch('/admin/users/usr_omar', { name: 'Later' })
    for (;;) {
      const next = await reader?.read()
      if (next === undefined || next.done) break
      all += text.decode(next.value)
    }
    expect(lines(all)).toHaveLength(2501)
  })

  test.each([
    ['?format=xlsx', 'format'],
    ['', 'format'],
    ['?format=csv&limit=3', 'limit'],
  ])('refuses %s, and records no export', async (query, path) => {
    expectProblem(
      await admin.get(`/activity/export${query}`, 'cleo'),
      400,
      'request_malformed',
      path,
    )
    expect(await admin.records()).toEqual([])
  })
})

describe('verification', () => {
  test('finds nothing wrong with what the flows wrote', async () => {
    await week()
    const answer = await admin.get('/activity/verify', 'cleo')
    expect(contract.verification.safeParse(answer.body).error).toBeUndefined()
    expect(answer.body).toEqual({ ok: true, chains: 4, records: 15, problems: [] })
  })

  test('of one session reads that one; another tenant’s is not there', async () => {
    const { first, guss } = await week()
    const answer = await admin.get(`/activity/verify?session=${first}`)
    expect(answer.body).toEqual({ ok: true, chains: 1, records: 6, problems: [] })
    for (const id of [guss, 'ses_none'])
      expectProblem(await admin.get(`/activity/verify?session=${id}`), 404, 'session_not_found')
  })

  test('the question "what did the agent access for this user" is one call', async () => {
    await week()
    const asked: Json[] = await list(
      '?user=usr_maya&agent=agt_briefs&from=2026-11-30T00:00:00Z&to=2026-12-01T00:00:00Z',
    )
    expect(new Set(asked.map((r) => r.type))).toEqual(
      new Set(['session.started', 'access.requested', 'access.decided', 'grant.created']),
    )
  })
})
