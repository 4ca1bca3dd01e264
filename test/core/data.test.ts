import { describe, expect, test } from 'vitest'
import { boundRows, type DataGrant, dataView, fieldsIn } from '../../src/core/data.ts'
import type { Filter, GrantId } from '../../src/core/vocabulary.ts'

/** What a grant shows to one user: the user's values in place of `$user`, and never more for the want of one. */
const MAYA = { region: 'emea', level: 3, lead: false, regions: ['emea', 'amer'], at: { site: 'x' } }
const MINE = { region: { $user: 'region' } }
const NONE = { owner: { $user: 'nobody' } }
const OPEN = { open: true }

describe('a filter with the user’s values', () => {
  test.each<[object, object]>([
    [OPEN, OPEN],
    [MINE, { region: 'emea' }],
    [{ level: { $lte: { $user: 'level' } } }, { level: { $lte: 3 } }],
    [{ lead: { $user: 'lead' } }, { lead: false }],
    [{ site: { $user: 'at.site' } }, { site: 'x' }],
    [{ region: { $in: { $user: 'regions' } } }, { region: { $in: ['emea', 'amer'] } }],
    [{ region: { $not: { $eq: { $user: 'region' } } } }, { region: { $not: { $eq: 'emea' } } }],
    [{ $not: { $or: [MINE, OPEN] } }, { $not: { $or: [{ region: 'emea' }, OPEN] } }],
    // What cannot be true is no alternative.
    [{ $or: [NONE, OPEN] }, { $or: [OPEN] }],
    [
      { $and: [{ $or: [{ $and: [NONE, OPEN] }, MINE] }] },
      { $and: [{ $or: [{ region: 'emea' }] }] },
    ],
  ])('%j is %j', (written, bound) => {
    expect(boundRows(written, MAYA)).toEqual(bound)
  })

  test.each<unknown>([
    NONE,
    { ...OPEN, ...NONE },
    { $or: [NONE] },
    { $and: [NONE, OPEN] },
    { level: { $gte: 1, $lt: { $user: 'nobody' } } },
    // To leave a branch out under a $not would show more.
    { $not: NONE },
    { $not: { $or: [NONE, OPEN] } },
    { $not: { $and: [{ $or: [NONE, OPEN] }, MINE] } },
    { owner: { $not: { $eq: { $user: 'nobody' } } } },
    // A value of another kind is none.
    { region: { $user: 'regions' } },
    { region: { $in: { $user: 'region' } } },
    { region: { $user: 'at' } },
    { region: { $user: 'at.constructor' } },
    { region: { $user: 'toString' } },
    // Not filters at all.
    {},
    { $or: [] },
    { region: {} },
    { region: { $like: '%' } },
    { __proto__: null, constructor: 'x' },
    true,
    null,
    [],
    'region',
  ])('%j shows nothing', (written) => {
    expect(boundRows(written, MAYA)).toBeNull()
  })

  test('names its fields', () => {
    const filter = { a: 1, $or: [{ b: 1 }, { $not: { c: { $in: [1] } } }], $and: [{ 'd.e': true }] }
    expect(fieldsIn(filter)).toEqual(['a', 'b', 'c', 'd.e'])
  })
})

const grant = (more: Partial<DataGrant> = {}): DataGrant => ({
  id: 'grt_1' as GrantId,
  permission: 'accounts.rows:my_region',
  rows: MINE,
  fields: ['id', 'region', 'arr'],
  ...more,
})
const view = (grants: DataGrant[], ...restrictions: { blocks?: Filter; masks?: string[] }[]) =>
  dataView({
    grants,
    attributes: MAYA,
    restrictions: restrictions.map(({ blocks = null, masks = [] }) => ({ blocks, masks })),
  })

describe('what grants show', () => {
  test('nothing held is no part, whatever is blocked', () => {
    expect(view([], { blocks: OPEN, masks: ['arr'] })).toEqual({
      parts: [],
      masked: ['arr'],
      blocked: [OPEN],
    })
  })

  test('a part each, with its own rows and fields', () => {
    const narrow = { arr: { $gt: 5 } }
    const other = grant({ id: 'grt_2' as GrantId, fields: ['id'], narrow })
    expect(view([grant(), other]).parts.map(({ rows, fields }) => ({ rows, fields }))).toEqual([
      { rows: { region: 'emea' }, fields: ['id', 'region', 'arr'] },
      { rows: { $and: [{ region: 'emea' }, narrow] }, fields: ['id'] },
    ])
  })

  test('masks of all restrictions hide fields, and what a narrow would tell of them', () => {
    const narrowed = grant({ narrow: { $not: { arr: 5 } } })
    const seen = view([grant(), narrowed], { masks: ['arr'] }, { masks: ['phone', 'arr'] })
    expect(seen.masked).toEqual(['arr', 'phone'])
    expect(seen.parts.map((part) => part.fields)).toEqual([['id', 'region']])
    expect(view([narrowed], { masks: ['*'] }).parts).toEqual([])
    expect(view([grant()], { masks: ['*'] }).parts.map((part) => part.fields)).toEqual([[]])
  })

  test.each<Filter>([NONE, { $or: [NONE, OPEN] }, { $not: NONE }, {}, { region: { $like: '%' } }])(
    'a block that is not understood blocks everything: %j',
    (blocks) => {
      expect(view([grant()], { blocks }).parts).toEqual([])
      expect(view([grant()], { blocks: OPEN }, { blocks }).parts).toEqual([])
    },
  )

  test.each<object>([{}, { arr: { $gt: { $user: 'level' } } }, { $or: [] }, { arr: { $like: 1 } }])(
    'a narrow that is none shows nothing: %j',
    (narrow) => {
      expect(view([grant({ narrow: { ...narrow } })]).parts).toEqual([])
    },
  )
})
