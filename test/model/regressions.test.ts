import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Command } from './commands.ts'
import { createStage, type Stage } from './real.ts'
import { run } from './run.ts'

/** Sequences that once found a bug, by name. `model.test.ts` prints new ones ready to be pasted here. */
const START: Command = {
  do: 'start',
  user: 0,
  template: 'm-root',
  version: null,
  by: 'exchange',
  mode: 'ask',
  modeFor: null,
  claim: true,
}
const API = 0
const BOARDS = 6
const BOARD_A = 7
const asks = (...items: readonly number[]): Command => ({ do: 'ask', at: 0, stale: false, items })
const child = (template: string): Command => ({
  do: 'child',
  at: 0,
  stale: false,
  template,
  readOnly: false,
  claim: true,
})
const answers = (
  given: 'allow_once' | 'allow_always' | 'deny',
  ruleFor: number | null = null,
): Command => ({ do: 'answer', request: 0, answers: [given], wrong: null, ruleFor })

/** The user has an allow rule that a widened template has suspended, and is being asked because of it. */
const RECONSENT: readonly Command[] = [
  START,
  { do: 'rule', user: 0, template: 'm-root', effect: 'allow', item: API, for: 60 },
  { do: 'suspend', template: 'm-root' },
  asks(API),
]

const FOUND: Readonly<Record<string, readonly Command[]>> = {
  'a frozen template starts no subagent, though no session of the tree runs it yet': [
    START,
    { do: 'freeze', scope: 'template', which: 2, on: true },
    child('m-leaf'),
  ],
  'allow_always on a reconsent prompt until a time lasts until that time': [
    ...RECONSENT,
    answers('allow_always', 30),
  ],
  'allow_always on a reconsent prompt is remembered though its rule was deleted meanwhile': [
    ...RECONSENT,
    { do: 'forget rule', rule: 0, as: 'own' },
    answers('allow_always'),
  ],
  'allow_always on a reconsent prompt is remembered though its rule ran out meanwhile': [
    ...RECONSENT,
    { do: 'tick', seconds: 61, sweep: false },
    answers('allow_always'),
  ],
  'what the user now allows is held, though a wider grant that they lost was there when they answered':
    [
      START,
      { do: 'access', user: 0, item: 7, how: 'row' },
      asks(BOARD_A),
      asks(BOARDS),
      { ...(answers('allow_once') as Extract<Command, { do: 'answer' }>), request: 1 },
      { do: 'access', user: 0, item: 3, how: 'row' },
      answers('allow_once'),
      { do: 'reissue', at: 0, audience: null },
    ],
  'what was lost unnoticed does not count as held when it is asked for again': [
    START,
    { do: 'access', user: 0, item: 7, how: 'row' },
    asks(BOARDS),
    answers('allow_once'),
    { do: 'access', user: 0, item: 3, how: 'row' },
    asks(BOARD_A),
  ],
  'a question that nobody answered in time has expired, though its session is ended before the sweep':
    [
      START,
      asks(API),
      { do: 'tick', seconds: 301, sweep: false },
      { do: 'end', at: 0, stale: false, as: 'agent' },
    ],
}

describe('sequences that once found a bug', () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await createStage()
  })
  afterAll(() => stage?.world.close())

  for (const [name, commands] of Object.entries(FOUND)) it(name, () => run(stage, commands))

  it('I13: no table of what people may do has a column for an agent or a session', async () => {
    const tables = await stage.world.rows<{ table: string; columns: string[] }>(
      `select table_name as "table", array_agg(column_name::text order by column_name) as columns
       from information_schema.columns where table_schema = 'public' group by 1`,
    )
    const standing = tables.filter(
      ({ table, columns }) =>
        columns.includes('permission_id') && !['access_grant', 'request_item'].includes(table),
    )
    expect(standing.map(({ table }) => table).sort()).toEqual([
      'consent_rule',
      // What an endpoint asks for: nobody holds it by that.
      'endpoint_permission',
      'role_permission',
      // A backend program's own, which no agent can be.
      'service_account_permission',
      'user_access',
      'user_permission',
    ])
    for (const { table, columns } of [
      ...standing,
      ...tables.filter((t) => ['role_assignment', 'group_member'].includes(t.table)),
    ])
      expect([table, columns.filter((c) => /agent|session/.test(c))]).toEqual([table, []])
  })
})
