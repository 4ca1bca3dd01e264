import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/studio.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { type Answer, createPeople, type Json, type People } from '../support/people.ts'
import { type Login, TEMPLATES } from '../support/world-seed.ts'
import { expectProblem, items, paths } from './support/admin.ts'

/** Templates: built, checked, reviewed, published and adopted, through the public door (SPEC section 3). */
let people: People
beforeEach(async () => {
  people = await createPeople()
})
afterEach(async () => {
  expect(people.bugs).toEqual([])
  await people.world.close()
})

const call = (as: Login, method: string, path: string, body?: unknown, headers = {}) =>
  people.call(as, method, path, { ...(body === undefined ? {} : { body }), headers })
const V3 = TEMPLATES['renewal-briefs']?.versions[3]?.ceiling ?? []
const GOOD = {
  purpose: 'Writes the briefs for renewals.',
  ceiling: [{ permission: 'accounts:read' }],
  sponsor: 'bo',
}
const draft = (more: object = {}, name = 'new-job') =>
  call('bo', 'POST', '/templates', { name, title: 'New job', draft: { ...GOOD, ...more } })
const at = (n: number, what = '', name = 'new-job') => `/templates/${name}/versions/${n}${what}`
const submit = (n = 1, name?: string) => call('bo', 'POST', at(n, '/submit', name))
const approve = (n = 1, name?: string, as: Login = 'rhea') =>
  call(as, 'POST', at(n, '/review', name), { verdict: 'approve' })
const records = async () =>
  (
    await people.world.rows<{ type: string }>(
      `select type from activity where type like 'template.%' order by n`,
    )
  ).map((r) => r.type)
const codes = (answer: Answer) => (answer.body.problems as Json[]).map((p) => [p.pointer, p.code])

/** Version 4 of renewal-briefs, published, from version 3 with these members in place. */
async function publishBriefs(more: object, n = 4) {
  const opened = await call('bo', 'PUT', at(n, '', 'renewal-briefs'), {
    base: 'published',
    ...more,
  })
  expect(opened.status, JSON.stringify(opened.body)).toBe(200)
  expect((await submit(n, 'renewal-briefs')).status).toBe(200)
  const done = await approve(n, 'renewal-briefs')
  expect(done.status, JSON.stringify(done.body)).toBe(200)
  return done
}
const adopted = async (tenant = 'ten_acme') =>
  (
    await people.world.rows<{ adopted_version: number }>(
      `select adopted_version from enablement where tenant_id = $1 and template_id = 'tpl_briefs'`,
      [tenant],
    )
  )[0]?.adopted_version

describe('a draft', () => {
  test('is made with its template, read by id and name, listed, and on record', async () => {
    const made = await draft()
    expect(made.status).toBe(201)
    expect(contract.templateVersion.safeParse(made.body).error).toBeUndefined()
    expect(made.body).toMatchObject({
      template: 'new-job',
      version: 1,
      status: 'draft',
      revision: 1,
      modes: ['ask'],
      authors: ['usr_bo'],
      sponsor: { id: 'usr_bo', login: 'bo', status: 'active' },
      problems: [],
    })
    expect(made.headers.get('etag')).toBe('"1"')
    for (const ref of ['new-job', made.body.template_id])
      expect((await call('sol', 'GET', `/templates/${ref}/versions/1`)).body).toEqual(made.body)
    const list = items(await call('rhea', 'GET', '/templates'))
    for (const one of list) expect(contract.template.safeParse(one).error).toBeUndefined()
    expect(list.find((t) => t.name === 'new-job')).toMatchObject({ owned: true, open_version: 1 })
    expect(await records()).toEqual(['template.created'])
    expectProblem(await draft(), 409, 'already_exists', 'name')
  })

  test('says of each item why the job needs it; published, that stands with the rest', async () => {
    const why = 'The brief names each account.'
    const read = { permission: 'accounts:read', justification: why }
    const board = { permission: 'dashboard:view', resource: 'dashboard/*' }
    await draft({ ceiling: [read, board] })
    const shown = async (n = 1) => (await call('sol', 'GET', at(n))).body.ceiling
    expect(await shown()).toEqual([read, board])
    const put = (revision: number, ceiling: object[]) =>
      call('bo', 'PUT', at(1), { ...GOOD, ceiling, revision })
    for (const justification of ['', ' ', 'x'.repeat(501)])
      expect((await put(1, [{ ...read, justification }])).status).toBe(400)
    expect((await put(1, [board, read])).body.ceiling).toEqual([board, read])
    expect((await put(2, [board, { permission: 'accounts:read' }])).status).toBe(200)
    expect(await shown()).toEqual([board, { permission: 'accounts:read' }])
    expect((await put(3, [read])).status).toBe(200)
    await submit()
    await approve()
    expect(await shown()).toEqual([read])
    // The next version begins with it; a change of the words alone widens nothing.
    await call('bo', 'PUT', at(2), { base: 'published' })
    expect(await shown(2)).toEqual([read])
    const others = [{ ...read, justification: 'Other words' }]
    await call('bo', 'PUT', at(2), { ...GOOD, ceiling: others, revision: 1 })
    const { diff } = (await call('rhea', 'GET', at(2, '/diff'))).body
    expect(diff).toMatchObject({ widens: false, items: [] })
    await expect(
      people.world.rows(`update template_version set justifications = '[]' where version = 1
        and template_id = (select id from template where name = 'new-job')`),
    ).rejects.toThrow('published_version_is_immutable')
  })

  test('is listed in pages by name', async () => {
    const first = await call('bo', 'GET', '/templates?limit=2')
    const second = await call('bo', 'GET', `/templates?limit=200&cursor=${first.body.next}`)
    const names = [...items(first), ...items(second)].map((t) => t.name)
    expect(names).toEqual(Object.keys(TEMPLATES).sort())
  })

  test('may be incomplete, and says all that is missing at once; then it cannot be submitted', async () => {
    const made = await call('bo', 'POST', '/templates', {
      name: 'new-job',
      title: 'New job',
      draft: {
        ceiling: [
          { permission: 'no:such' },
          { permission: 'billing:admin' },
          { permission: 'dashboard:view' },
          { permission: 'accounts:read', resource: 'account/1' },
          { permission: 'accounts.rows:my_region', narrow: { phone: { $like: 'x' } } },
          { permission: 'accounts.rows:my_region', narrow: { secret: 1 } },
          { permission: 'accounts:read' },
          { permission: 'accounts:read' },
        ],
        limits: { openRequests: 11 },
        children: [
          { template: 'email-drafter', version: 9 },
          { template: 'nothing', version: 1 },
          { template: 'new-job', version: 1 },
        ],
        sensitive: [{ permission: 'dashboard:view', resource: 'dashboard/a*' }],
        sponsor: 'maya',
      },
    })
    expect(made.status).toBe(201)
    expect(codes(made)).toEqual([
      ['/purpose', 'purpose_missing'],
      ['/ceiling/0/permission', 'item_unknown'],
      ['/ceiling/1/permission', 'never_delegable'],
      ['/ceiling/2/resource', 'item_invalid'],
      ['/ceiling/3/resource', 'item_invalid'],
      ['/ceiling/4/narrow', 'item_invalid'],
      ['/ceiling/5/narrow', 'item_invalid'],
      ['/ceiling/7', 'item_twice'],
      ['/limits/openRequests', 'limit_too_high'],
      ['/children/0', 'child_unpublished'],
      ['/children/1', 'child_unknown'],
      ['/children/2', 'child_cyclic'],
      ['/sensitive/0/resource', 'item_invalid'],
      ['/sponsor', 'sponsor_gone'],
    ])
    const refused = await submit()
    expectProblem(refused, 422, 'unprocessable', '/ceiling/1/permission')
    expect(paths(refused)).toHaveLength(14)
    expect(await records()).toEqual(['template.created'])
  })

  test('is checked live without being written', async () => {
    const before = await people.world.rows('select count(*) from template_version')
    const checked = await call('bo', 'POST', '/templates/validate', {
      draft: { ...GOOD, ceiling: [{ permission: 'email:send' }] },
    })
    expect(checked.body.ok).toBe(false)
    expect(codes(checked)).toEqual([['/ceiling/0/resource', 'item_invalid']])
    expect(await people.world.rows('select count(*) from template_version')).toEqual(before)
    await people.world.rows(`update permission set retired = true where id = 'accounts:read'`)
    expect(codes(await call('rhea', 'POST', '/templates/validate', { draft: GOOD }))).toEqual([
      ['/ceiling/0/permission', 'item_retired'],
    ])
    await people.world.rows(`update app_user set status = 'disabled' where id = 'usr_bo'`)
    expect(codes(await call('rhea', 'POST', '/templates/validate', { draft: GOOD }))).toEqual([
      ['/ceiling/0/permission', 'item_retired'],
      ['/sponsor', 'sponsor_disabled'],
    ])
  })

  test('keeps items in canonical form', async () => {
    const made = await draft({
      ceiling: [{ permission: 'email:send', resource: 'domain/CUSTOMER.Example.' }],
    })
    expect(made.body.ceiling).toEqual([
      { permission: 'email:send', resource: 'domain/customer.example' },
    ])
  })

  test('of two builders: the second is told, with what stands, and nothing is lost', async () => {
    await draft()
    const first = await call('bo', 'PUT', at(1), { ...GOOD, purpose: 'Bo’s', revision: 1 })
    expect(first.body).toMatchObject({ revision: 2, purpose: 'Bo’s' })
    const second = await call(
      'bea',
      'PUT',
      at(1),
      { ...GOOD, purpose: 'Bea’s' },
      { 'If-Match': '"1"' },
    )
    expectProblem(second, 409, 'revision_stale')
    expect(second.body.current).toMatchObject({ revision: 2, purpose: 'Bo’s' })
    const again = await call(
      'bea',
      'PUT',
      at(1),
      { ...GOOD, purpose: 'Both' },
      { 'If-Match': '"2"' },
    )
    expect(again.body).toMatchObject({ revision: 3, authors: ['usr_bea', 'usr_bo'] })
    expectProblem(await call('bo', 'PUT', at(1), GOOD), 422, 'unprocessable', 'revision')
    expect(await records()).toEqual(['template.created', 'template.drafted', 'template.drafted'])
  })

  test('opens as the next version only, from what was published or from nothing', async () => {
    const briefs = (n: number) => at(n, '', 'renewal-briefs')
    expectProblem(await call('bo', 'PUT', briefs(5), GOOD), 404, 'not_found')
    const based = await call('bo', 'PUT', briefs(4), { base: 'published', purpose: 'More' })
    expect(based.body).toMatchObject({
      version: 4,
      base_version: 3,
      purpose: 'More',
      ceiling: V3,
      context: 'Be brief.',
      modes: ['ask', 'auto', 'bypass'],
    })
    expectProblem(await call('bo', 'PUT', briefs(5), GOOD), 404, 'not_found')
    expectProblem(await call('bo', 'PUT', briefs(3), { ...GOOD, revision: 1 }), 409, 'wrong_state')
    const drafter = await call('bo', 'PUT', at(2, '', 'email-drafter'), { purpose: 'Anew' })
    expect(drafter.body).toMatchObject({ ceiling: [], context: '' })
  })

  test('a repeat with the same Idempotency-Key opens nothing twice', async () => {
    const body = { name: 'once', title: 'Once' }
    const first = await call('bo', 'POST', '/templates', body, { 'Idempotency-Key': 'k' })
    const again = await call('bo', 'POST', '/templates', body, { 'Idempotency-Key': 'k' })
    expect([again.status, again.body]).toEqual([201, first.body])
    expect(await records()).toEqual(['template.created'])
  })
})

describe('the review', () => {
  test('publishes what was submitted, immutable, with everything on record', async () => {
    await draft()
    expect((await submit()).body).toMatchObject({ status: 'in_review' })
    expectProblem(await call('bo', 'PUT', at(1), { ...GOOD, revision: 1 }), 409, 'wrong_state')
    const done = await approve()
    expect(contract.templateReviewed.safeParse(done.body).error).toBeUndefined()
    expect(done.body).toMatchObject({ status: 'published', reviewer: 'usr_rhea', widens: true })
    expectProblem(await approve(), 409, 'wrong_state')
    await expect(
      people.world.rows(
        `update template_version set context = 'x' where version = 1 and reviewer is not null`,
      ),
    ).rejects.toThrow('published_version_is_immutable')
    expect(await records()).toEqual([
      'template.created',
      'template.submitted',
      'template.published',
    ])
  })

  test('reviewer_is_not_the_author: nobody who edited the draft approves it or sends it back', async () => {
    await draft()
    await call('bea', 'PUT', at(1), { ...GOOD, revision: 1 })
    await submit()
    expectProblem(await approve(1, undefined, 'bea'), 403, 'reviewer_is_author')
    const back = { verdict: 'send_back', comment: 'No' }
    expectProblem(await call('bea', 'POST', at(1, '/review'), back), 403, 'reviewer_is_author')
    await expect(
      people.world.rows(
        `update template_version set status = 'published', reviewer = 'usr_bea', published_at = now()
         where status = 'in_review'`,
      ),
    ).rejects.toThrow('reviewer_is_not_any_author')
    expect((await approve()).status).toBe(200)
  })

  test('sends back with a comment; the draft goes on, and the thread tells it all', async () => {
    await draft()
    await submit()
    const noWords = { verdict: 'send_back' }
    expectProblem(
      await call('rhea', 'POST', at(1, '/review'), noWords),
      422,
      'unprocessable',
      'comment',
    )
    const back = { verdict: 'send_back', comment: 'Too wide.' }
    expect((await call('rhea', 'POST', at(1, '/review'), back)).body.status).toBe('draft')
    await call('bo', 'POST', at(1, '/comments'), { body: 'Narrowed.' })
    await call('bo', 'PUT', at(1), { ...GOOD, purpose: 'Less', revision: 1 })
    await submit()
    expect((await call('bea', 'POST', at(1, '/withdraw'), {})).body.status).toBe('draft')
    const thread = items(await call('sol', 'GET', at(1, '/comments')))
    for (const one of thread) expect(contract.templateComment.safeParse(one).error).toBeUndefined()
    expect(thread.map((one) => one.kind)).toEqual([
      'submitted',
      'sent_back',
      'comment',
      'submitted',
      'withdrawn',
    ])
    expect(await records()).not.toContain('template.published')
  })

  test('a comment may be on one item of the ceiling, and on nothing else', async () => {
    const ceiling = [
      { permission: 'accounts:read' },
      { permission: 'dashboard:view', resource: 'dashboard/*' },
    ]
    await draft({ ceiling })
    await submit()
    const say = (on?: object) => call('rhea', 'POST', at(1, '/comments'), { body: 'Why all?', on })
    expect((await say(ceiling[1])).status).toBe(201)
    expect((await say()).status).toBe(201)
    for (const on of [{ permission: 'dashboard:view' }, { permission: 'email:send' }])
      expectProblem(await say(on), 422, 'unprocessable', 'on')
    const thread = items(await call('sol', 'GET', at(1, '/comments')))
    for (const one of thread) expect(contract.templateComment.safeParse(one).error).toBeUndefined()
    expect(thread.map((one) => one.on)).toEqual([undefined, ceiling[1], undefined])
    // It stays with what it was said of, whatever becomes of the draft.
    await call('bo', 'POST', at(1, '/withdraw'), {})
    await call('bo', 'PUT', at(1), { ...GOOD, revision: 1 })
    expect(items(await call('bo', 'GET', at(1, '/comments')))[1]?.on).toEqual(ceiling[1])
  })

  test('checks again under the lock: what the catalog lost meanwhile is not published', async () => {
    await draft()
    await submit()
    await people.world.rows(`update permission set delegable = false where id = 'accounts:read'`)
    const refused = await approve()
    expectProblem(refused, 422, 'unprocessable', '/ceiling/0/permission')
    expect((await call('bo', 'GET', at(1))).body).toMatchObject({
      status: 'in_review',
      problems: [{ code: 'never_delegable' }],
    })
  })

  test('of another revision than was shown is refused', async () => {
    await draft()
    await submit()
    const stale = { verdict: 'approve', revision: 7 }
    expectProblem(await call('rhea', 'POST', at(1, '/review'), stale), 409, 'revision_stale')
  })
})

describe('children', () => {
  test('that lead back are cyclic over the whole tree, and cannot be published', async () => {
    await draft({ children: [{ template: 'renewal-briefs', version: 3 }] }, 'top')
    await submit(1, 'top')
    await approve(1, 'top')
    const looped = await call('bo', 'PUT', at(2, '', 'email-drafter'), {
      base: 'published',
      children: [{ template: 'top', version: 1 }],
    })
    expect(codes(looped)).toEqual([['/children/0', 'child_cyclic']])
    expectProblem(await submit(2, 'email-drafter'), 422, 'unprocessable', '/children/0')
  })
})

describe('who may see and do what', () => {
  const BODY: Record<string, unknown> = {
    review: { verdict: 'approve' },
    comments: { body: 'x' },
    sponsor: { sponsor: 'bo' },
  }
  const ROUTES: [string, string, readonly Login[]][] = [
    ['GET', '', ['bo', 'rhea', 'bea', 'sol']],
    ['GET', '/diff', ['bo', 'rhea', 'bea', 'sol']],
    ['GET', '/reach', ['bo', 'rhea', 'bea', 'sol']],
    ['GET', '/comments', ['bo', 'rhea', 'bea', 'sol']],
    ['PUT', '', ['bo', 'bea']],
    ['POST', '/submit', ['bo', 'bea']],
    ['POST', '/withdraw', ['bo', 'bea']],
    ['POST', '/review', ['rhea', 'bea']],
    ['POST', '/retire', ['rhea', 'bea']],
    ['PUT', '/sponsor', ['bo', 'rhea', 'bea']],
    ['POST', '/comments', ['bo', 'rhea', 'bea']],
  ]

  test.each(ROUTES)('%s …/versions/{n}%s', async (method, what, allowed) => {
    await draft({}, 'mine')
    const path = at(1, what, 'mine')
    const body = method === 'GET' ? undefined : (BODY[what.slice(1)] ?? {})
    for (const login of ['bo', 'rhea', 'bea', 'sol'] as const) {
      const { status } = await call(login, method, path, body)
      if (allowed.includes(login)) expect([login, status]).not.toEqual([login, 403])
      else expect([login, status]).toEqual([login, 403])
    }
    // I17: a draft of another tenant's does not exist for its staff, nor for people without a role.
    const foreign = await call('adam', method, path, body)
    expect([403, 404]).toContain(foreign.status)
    expect((await call('maya', method, path, body)).status).toBe(403)
  })

  test('I17 another tenant reads what is public and published, without the people behind it', async () => {
    const { status, body } = await call('adam', 'GET', at(3, '', 'renewal-briefs'))
    expect([status, body.status]).toEqual([200, 'published'])
    expect(Object.keys(body)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/sponsor|authors|reviewer/)]),
    )
    await call('bo', 'PUT', at(4, '', 'renewal-briefs'), { base: 'published' })
    expect((await call('adam', 'GET', at(4, '', 'renewal-briefs'))).status).toBe(404)
    expect((await call('adam', 'GET', at(3, '/comments', 'renewal-briefs'))).status).toBe(404)
    for (const path of ['/templates/studio-secret', at(1, '', 'studio-secret')])
      expect((await call('adam', 'GET', path)).status).toBe(404)
    const list = items(await call('adam', 'GET', '/templates'))
    expect(list.map((t) => t.name)).not.toContain('studio-secret')
    expect(list.find((t) => t.name === 'renewal-briefs')).not.toHaveProperty('open_version')
  })
})

describe('publishing', () => {
  test('a version that only narrows is adopted at once wherever it is on, and ends what it takes', async () => {
    const session = await people.world.start('maya', { mode: 'bypass' })
    await people.world.ask(session, [
      { permission: 'accounts:read' },
      { permission: 'accounts.rows:my_region' },
    ])
    const done = await publishBriefs({ ceiling: V3.slice(1) })
    expect(done.body.widens).toBe(false)
    expect([await adopted(), await adopted('ten_globex')]).toEqual([4, 4])
    await followFeed(people.world.ctx)
    expect(
      await people.world.rows('select permission_id from access_grant where session_id = $1', [
        session,
      ]),
    ).toEqual([{ permission_id: 'accounts.rows:my_region' }])
    const told = await people.world.rows(
      `select tenant_id, user_id, data from activity where type = 'enablement.adopted' order by tenant_id`,
    )
    // I17: nobody of the publisher is named on another tenant's record.
    expect(told).toMatchObject(
      ['ten_acme', 'ten_globex'].map((tenant_id) => ({
        tenant_id,
        user_id: null,
        data: { version: 4, from_version: 3, widens: false, by: 'publication' },
      })),
    )
    expect(JSON.stringify(told)).not.toContain('usr_')
  })

  test('a narrowing is adopted where the template is off too: turned on again, it is not the wider one', async () => {
    await call('adam', 'PUT', '/enablements/renewal-briefs', { status: 'off' })
    await publishBriefs({ ceiling: V3.slice(1) })
    const on = await call('adam', 'PUT', '/enablements/renewal-briefs', { status: 'on' })
    expect(on.body).toMatchObject({ status: 'on', adopted_version: 4 })
  })

  test.each([
    ['widens', { ceiling: [...V3, { permission: 'email-templates:write' }] }, true],
    ['says something else to the agent', { context: 'Be long.' }, false],
  ])('one that %s waits for each admin, who sees what it changes', async (_, more, widens) => {
    const done = await publishBriefs(more)
    expect(done.body.widens).toBe(widens)
    expect(await adopted()).toBe(3)
    const offer = (await call('adam', 'GET', '/enablements/renewal-briefs')).body
    expect(offer).toMatchObject({ adopted_version: 3, latest_version: 4 })
    const preview = (await call('adam', 'GET', '/enablements/renewal-briefs/preview')).body
    expect(contract.enablementPreview.safeParse(preview).error).toBeUndefined()
    expect(preview).toMatchObject({ from_version: 3, to_version: 4, widens })
  })

  test('a preview is within what the tenant kept', async () => {
    const kept = V3.filter((item) => item.permission !== 'email:send')
    await call('adam', 'PUT', '/enablements/renewal-briefs', { status: 'on', kept })
    await publishBriefs({ ceiling: [...V3, { permission: 'email-templates:write' }] })
    const { body } = await call('adam', 'GET', '/enablements/renewal-briefs/preview?version=4')
    expect((body.kept as Json[]).map((item) => item.permission)).not.toContain('email:send')
    expect((body.diff as Json).items).toMatchObject([{ permission: 'email-templates:write' }])
    expect(await adopted()).toBe(3)
    expectProblem(
      await call('adam', 'GET', '/enablements/renewal-briefs/preview?version=9'),
      422,
      'unprocessable',
      'version',
    )
  })

  test('a narrowing of what a tenant never took does not widen it behind its back', async () => {
    await publishBriefs({ ceiling: [...V3, { permission: 'email-templates:write' }] }, 4)
    await publishBriefs({ ceiling: [...V3.slice(1), { permission: 'email-templates:write' }] }, 5)
    expect(await adopted()).toBe(3)
  })

  test('a retired version is offered no more; who has it keeps it', async () => {
    expectProblem(
      await call('bo', 'POST', at(3, '/retire', 'renewal-briefs'), {}),
      403,
      'forbidden',
    )
    const done = await call('rhea', 'POST', at(3, '/retire', 'renewal-briefs'), { comment: 'Old' })
    expect(done.body.status).toBe('retired')
    expect(await adopted()).toBe(3)
    const session = await people.world.start('maya')
    const asked = await people.world.ask(session, [{ permission: 'accounts:read' }])
    expect(asked.value.items[0]?.verdict.reason).toBe('mode_ask')
  })

  test('a sponsor who leaves is flagged, and replaced without touching the terms', async () => {
    await draft()
    await submit()
    await approve()
    await people.world.rows(`update app_user set status = 'disabled' where id = 'usr_bo'`)
    expect((await call('sol', 'GET', '/templates/new-job')).body.sponsor_needed).toBe(true)
    const put = (sponsor: string) => call('rhea', 'PUT', at(1, '/sponsor'), { sponsor })
    for (const sponsor of ['bo', 'maya', 'usr_maya'])
      expectProblem(await put(sponsor), 422, 'unprocessable', 'sponsor')
    expect((await put('rhea')).body).toMatchObject({
      sponsor: { id: 'usr_rhea', status: 'active' },
    })
    expect((await call('sol', 'GET', '/templates/new-job')).body.sponsor_needed).toBe(false)
    expect((await records()).at(-1)).toBe('template.sponsor_changed')
  })
})

describe('the diff and the reach', () => {
  let opened: People
  beforeAll(async () => {
    opened = await createPeople()
  })
  afterAll(() => opened.world.close())

  test('are shown with risk, sensitivity and enforcement point, and what can carry data out', async () => {
    const get = (what: string) => opened.call('rhea', 'GET', at(3, what, 'renewal-briefs'))
    const diff = (await get('/diff')).body
    expect(contract.templateVersionDiff.safeParse(diff).error).toBeUndefined()
    expect(diff).toMatchObject({ against: 2, diff: { widens: true } })
    expect((diff.diff as Json).items).toMatchObject([
      {
        change: 'added',
        permission: 'contracts.fields:pricing',
        sensitive: true,
        risk: 'medium',
        enforced_at: 'data',
      },
      { change: 'added', permission: 'email:send', risk: 'high', enforced_at: 'tool_gateway' },
    ])
    expect((await get('/diff?against=3')).body).toMatchObject({
      diff: { widens: false, items: [] },
    })
    expect((await get('/diff?against=9')).status).toBe(404)
    const reach = (await get('/reach')).body
    expect(contract.templateReach.safeParse(reach).error).toBeUndefined()
    expect(reach.members).toEqual(['renewal-briefs@3', 'email-drafter@1'])
    const by = Object.fromEntries((reach.items as Json[]).map((one) => [one.permission, one.by]))
    expect(by).toMatchObject({
      'accounts:read': ['email-drafter@1', 'renewal-briefs@3'],
      'email-templates:write': ['email-drafter@1'],
      'email:send': ['renewal-briefs@3'],
    })
    expect(
      (reach.pairs as Json[]).map((p) => [
        (p.reads as Json).permission,
        (p.sends as Json).permission,
      ]),
    ).toEqual([
      ['contracts.fields:pricing', 'email-templates:write'],
      ['contracts.fields:pricing', 'email:send'],
    ])
  })
})
