import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { verifyFile } from '../../src/cli/verify-activity.ts'
import type { ActivityRecord } from '../../src/core/activity.ts'
import { hashOf } from '../../src/db/activity.ts'
import { merkleRoot } from '../../src/db/checkpoints.ts'
import { verifyRecords } from '../../src/flows/verify-activity.ts'
import { EPOCH } from '../support/world-seed.ts'
import { ACME } from './support/chain.ts'

describe('records offline', () => {
  const chain = (length: number, session: string): ActivityRecord[] => {
    let prev = ''
    return Array.from({ length }, (_, i) => {
      const rest = {
        id: `act_${session}_${i + 1}`,
        tenant_id: 'ten_acme',
        seq: i + 1,
        at: EPOCH,
        type: 'call.allowed' as const,
        agent_id: 'agt_a',
        user_id: 'usr_maya',
        session_id: session,
        root_session_id: session,
        data: { i },
        prev_hash: prev,
      }
      prev = hashOf(rest)
      return { ...rest, hash: prev }
    })
  }
  const whole = chain(5, 'ses_a')
  const at = (i: number): ActivityRecord => {
    const record = whole[i]
    if (record === undefined) throw new Error('no such record')
    return record
  }
  const found = (records: readonly ActivityRecord[]) =>
    verifyRecords(records).problems.map((p) => [p.seq, p.problem])

  test('verify side by side', () => {
    const other = chain(5, 'ses_b')
    const mixed = whole.flatMap((record, i) => [record, other[i] ?? record])
    expect(verifyRecords(mixed)).toEqual({ ok: true, chains: 2, records: 10, problems: [] })
  })

  test.each([
    ['a removed record', whole.filter((_, i) => i !== 2), [[4, 'missing_before']]],
    [
      'lines in another order',
      [at(0), at(2), at(1), at(3), at(4)],
      [
        [3, 'missing_before'],
        [2, 'out_of_order'],
      ],
    ],
    ['a record twice', [...whole, at(4)], [[5, 'out_of_order']]],
    [
      'a tampered record',
      whole.map((r, i) => (i === 1 ? { ...r, data: { i: 7 } } : r)),
      [[2, 'altered']],
    ],
    [
      'a member that was added',
      whole.map((r, i) => (i === 1 ? { ...r, note: 'x' } : r)),
      [[2, 'altered']],
    ],
    [
      'a member that was taken away',
      whole.map(({ template: _, agent_id: __, ...r }, i) => (i === 1 ? r : at(i))),
      [[2, 'altered']],
    ],
  ] as [string, ActivityRecord[], unknown[]][])('show %s', (_, records, expected) => {
    expect(found(records)).toEqual(expected)
    expect(verifyRecords(records).ok).toBe(false)
  })

  test('of an extract may have gaps, and each alone must still be whole', () => {
    const extract = [at(1), at(4)]
    expect(verifyRecords(extract, { extract: true }).ok).toBe(true)
    expect(verifyRecords([at(1), { ...at(4), data: {} }], { extract: true }).ok).toBe(false)
  })

  test('more problems than are listed still count', () => {
    const records = Array.from({ length: 400 }, (_, i) => ({ ...at(0), id: `x${i}` }))
    const verified = verifyRecords(records)
    expect([verified.ok, verified.problems.length]).toEqual([false, 200])
  })

  test('the root covers every head and its place, in whatever order they come', () => {
    const heads = ['a', 'b', 'c', 'd', 'e'].map((chain, seq) => ({
      tenant_id: ACME,
      chain,
      seq,
      hash: 'h',
    }))
    const root = merkleRoot(heads)
    expect(merkleRoot([...heads].reverse())).toBe(root)
    const roots = [
      root,
      ...heads.map((_, i) => merkleRoot(heads.map((h, j) => (i === j ? { ...h, seq: 9 } : h)))),
      ...heads.map((_, i) => merkleRoot(heads.filter((__, j) => i !== j))),
    ]
    expect(new Set(roots).size).toBe(11)
  })

  const CUT =
    '1 sessions have no end in it: they were live when it was made, or its end was cut off'

  test('from a file: 0 when good, 1 when changed, 2 when a line is no record', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lend-'))
    const file = join(folder, 'export.ndjson')
    const out: string[] = []
    const check = async (lines: readonly string[]) => {
      await writeFile(file, `${lines.join('\n')}\n`)
      return verifyFile(file, (line) => void out.push(line))
    }
    const good = whole.map((record) => JSON.stringify(record))
    const { hash: _, ...last } = { ...at(4), seq: 6, id: 'act_end', type: 'session.ended' as const }
    const end = { ...last, prev_hash: at(4).hash }
    const ended = [...good, JSON.stringify({ ...end, hash: hashOf(end) })]
    expect(await check(ended)).toBe(0)
    expect(out.splice(0)).toEqual(['ok: 6 records in 1 chains'])
    expect(await check(good)).toBe(0)
    expect(await check(good.slice(1))).toBe(1)
    expect(await check(good.map((line) => line.replace('ses_a_3', 'ses_a_9')))).toBe(1)
    expect(await check([...good, '{"id": 1}'])).toBe(2)
    expect(await check(['not json'])).toBe(2)
    expect(out).toEqual([
      'ok: 5 records in 1 chains',
      CUT,
      'ses_a #2 (act_ses_a_2): missing_before',
      'NOT ok: 4 records in 1 chains',
      'ses_a #3 (act_ses_a_9): altered',
      'NOT ok: 5 records in 1 chains',
      CUT,
      'line 6 is no activity record',
      'line 1 is no activity record',
    ])
    await rm(folder, { recursive: true })
  })
})
