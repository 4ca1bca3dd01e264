import { describe, expect, test } from 'vitest'
import { matches, shownBy } from '../../src/enforce/filter.ts'

const ROW = { region: 'emea', days: 40, open: true, owner: { name: 'maya' }, none: null }

describe('a row passes', () => {
  test.each([
    [{ region: 'emea' }, true],
    [{ region: 'amer' }, false],
    [{ region: { $ne: 'amer' } }, true],
    [{ days: { $gte: 10, $lt: 40 } }, false],
    [{ days: { $gt: 10, $lte: 40 } }, true],
    [{ region: { $in: ['amer', 'emea'] } }, true],
    [{ region: { $in: ['amer'] } }, false],
    [{ 'owner.name': 'maya' }, true],
    [{ open: true, region: 'emea' }, true],
    [{ open: true, region: 'amer' }, false],
    [{ $or: [{ region: 'amer' }, { days: 40 }] }, true],
    [{ $and: [{ region: 'emea' }, { days: 41 }] }, false],
    [{ $not: { region: 'amer' } }, true],
    [{ days: { $not: { $gt: 40 } } }, true],
  ])('%j: %s', (filter, passes) => {
    expect(matches(filter, ROW)).toBe(passes)
  })
})

describe('a comparison with a missing value is never true, also under $not', () => {
  test.each<object>([
    { missing: 'x' },
    { missing: { $ne: 'x' } },
    { $not: { missing: 'x' } },
    { $not: { missing: { $ne: 'x' } } },
    { missing: { $not: { $eq: 'x' } } },
    { none: { $ne: 'x' } },
    { $not: { none: 'x' } },
    { missing: { $in: ['x'] } },
    { $not: { missing: { $in: ['x'] } } },
    // Of another type: as good as missing.
    { days: { $ne: '40' } },
    { $not: { days: '40' } },
    { region: { $lt: 5 } },
    { $not: { $and: [{ region: 'emea' }, { missing: 1 }] } },
    { $and: [{ region: 'emea' }, { missing: 1 }] },
    { $not: { $or: [{ region: 'amer' }, { missing: 1 }] } },
    // Nothing inherited is a value.
    { constructor: { $ne: 'x' } },
    { 'owner.toString': { $ne: 'x' } },
  ])('%j', (filter) => {
    expect(matches({ ...filter }, ROW)).toBe(false)
  })

  test('one side that is known decides', () => {
    expect(matches({ $or: [{ missing: 1 }, { region: 'emea' }] }, ROW)).toBe(true)
    expect(matches({ $not: { $and: [{ missing: 1 }, { region: 'amer' }] } }, ROW)).toBe(true)
  })
})

describe('what is not understood is an error, never ignored', () => {
  test.each<object>([
    {},
    { region: {} },
    { region: { $regex: '.*' } },
    { $nor: [{ region: 'x' }] },
    { $and: [] },
    { $or: 'x' },
    { $not: [] },
    { region: { $in: [] } },
    { region: { $eq: null } },
    { region: { $user: 'region' } },
    { region: null },
    { region: ['emea'] },
    { days: { $gt: [] } },
  ])('%j', (filter) => {
    expect(() => matches({ ...filter }, ROW)).toThrow()
  })
})

test('grants are alternatives; none shows nothing', () => {
  const amer = { narrow: { region: 'amer' } }
  expect(shownBy([], ROW)).toBe(false)
  expect(shownBy([amer], ROW)).toBe(false)
  expect(shownBy([amer, {}], ROW)).toBe(true)
})
