import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const feed = () => admin.world.rows('select user_id from feed order by id')

describe('restrictions', () => {
  const MASK = { user_id: 'usr_maya', entity: 'accounts', masks: ['phone'] }
  const BLOCK = { region: { $ne: { $user: 'region' } } }

  test('block rows and mask fields, for a person or a group', async () => {
    const mask = await admin.post('/admin/restrictions', MASK)
    expect(mask.status).toBe(201)
    expect(contract.restriction.safeParse(mask.body).error).toBeUndefined()
    const group = await admin.post('/admin/groups', { name: 'Sales', members: ['usr_omar'] })
    const block = await admin.post('/admin/restrictions', {
      group_id: group.body.id,
      entity: 'accounts',
      blocks: BLOCK,
    })
    expect(block.body).toMatchObject({ group_id: group.body.id, blocks: BLOCK, masks: [] })
    expect(items(await admin.get('/admin/restrictions?user_id=usr_maya'))).toEqual([mask.body])
    expect(items(await admin.get('/admin/restrictions'))).toHaveLength(2)
    expect(await feed()).toEqual([{ user_id: 'usr_maya' }, { user_id: 'usr_omar' }])
  })

  test('change and go, each heard of by whom they concern', async () => {
    const { body } = await admin.post('/admin/restrictions', { ...MASK, blocks: BLOCK })
    const path = `/admin/restrictions/${body.id}`
    const changed = await admin.patch(path, { masks: ['phone', 'name'], blocks: null })
    expect(changed.body.masks).toEqual(['phone', 'name'])
    expect(changed.body).not.toHaveProperty('blocks')
    expectProblem(await admin.patch(path, { masks: [] }), 422, 'unprocessable', 'blocks')
    expect((await admin.remove(path)).status).toBe(204)
    expectProblem(await admin.remove(path), 404, 'not_found')
    expect(await feed()).toEqual([1, 2, 3].map(() => ({ user_id: 'usr_maya' })))
  })

  const bad: [string, unknown, number, string, string][] = [
    [
      'neither blocks nor masks',
      { user_id: 'usr_maya', entity: 'accounts' },
      422,
      'unprocessable',
      'blocks',
    ],
    ['an entity the catalog lacks', { ...MASK, entity: 'acounts' }, 422, 'unprocessable', 'entity'],
    [
      'a field the entity lacks',
      { ...MASK, masks: ['phone', 'fone'] },
      422,
      'unprocessable',
      'masks.1',
    ],
    [
      'an unknown operator',
      { ...MASK, blocks: { region: { $like: 'x' } } },
      422,
      'unprocessable',
      'blocks.region.$like',
    ],
    ['an empty clause', { ...MASK, blocks: {} }, 422, 'unprocessable', 'blocks'],
    ['blocks that are no filter', { ...MASK, blocks: [] }, 400, 'request_malformed', 'blocks'],
    ['nobody', { entity: 'accounts', masks: ['phone'] }, 422, 'unprocessable', 'user_id'],
    [
      'I17 another tenant’s person',
      { ...MASK, user_id: 'usr_gus' },
      422,
      'unprocessable',
      'user_id',
    ],
    ['an unknown field', { ...MASK, agent_id: 'agt_briefs' }, 400, 'request_malformed', 'agent_id'],
  ]
  test.each(bad)(
    'are not made from %s, and nothing is written',
    async (_, body, status, code, path) => {
      const before = await admin.state()
      expectProblem(await admin.post('/admin/restrictions', body), status, code, path)
      expect(await admin.state()).toBe(before)
    },
  )

  test('I17 another tenant’s is neither changed nor removed', async () => {
    const theirs = await admin.post(
      '/admin/restrictions',
      { user_id: 'usr_gus', entity: 'accounts', masks: ['phone'] },
      'gina',
    )
    expect(theirs.status).toBe(201)
    const before = await admin.state()
    const path = `/admin/restrictions/${theirs.body.id}`
    expectProblem(await admin.patch(path, { masks: ['name'] }), 404, 'not_found')
    expectProblem(await admin.remove(path), 404, 'not_found')
    expect(await admin.state()).toBe(before)
  })
})
