import { expect, test } from 'vitest'
import { adoptVersion } from '../../src/flows/admin/adopt-version.ts'
import { createRule } from '../../src/flows/edit-rules.ts'
import { endByPerson } from '../../src/flows/people-sessions.ts'
import { confirmChange } from '../../src/flows/template-changes.ts'
import type { Run } from '../support/databases.ts'
import {
  asAgent,
  ask,
  codeOf,
  inTx,
  must,
  type Pair,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const ROUNDS = 10
const TEMPLATE = 'renewal-briefs'

const publish = (run: Run, version: number, more: string) =>
  run(
    `insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
       children, sensitive, sponsor, author, reviewer, published_at)
     select template_id, $1::integer, 'published', purpose, ceiling || $2::text::jsonb, context, modes,
       limits, children, sensitive, sponsor, author, reviewer, now()
     from template_version where template_id = 'tpl_briefs' and version = 3`,
    [version, more],
  )

const adopt = ({ a }: Pair, version: number) =>
  inTx(a, (tx) => adoptVersion(a, person('adam'), { template: TEMPLATE, version }, tx))
const confirm = ({ b }: Pair, version: number) =>
  inTx(b, (tx) => confirmChange(b, tx, person('maya'), { template: TEMPLATE, version }))
const status = async (run: Run) =>
  (await run<{ status: string }>('select status from consent_rule'))[0]?.status

twoInstances('the adoption of a wider version', (pair) => {
  test('once it has answered, no rule that it suspended grants anything', async () => {
    const { a, b, run } = pair()
    const read = { template: TEMPLATE, permission: 'accounts:read', effect: 'allow' as const }
    must(await inTx(a, (tx) => createRule(a, tx, person('maya'), read)))
    await publish(run, 4, '[{"permission": "email-templates:write"}]')
    for (let round = 0; round < ROUNDS; round++) {
      const session = await start(a)
      const agent = await asAgent(run, session)
      const [adopted, asked] = await Promise.all([
        adopt(pair(), 4),
        ask(b, agent, [{ permission: 'accounts:read' }]),
      ])
      must(adopted)
      const reason = must(asked).items[0]?.verdict.reason
      expect(['allow_rule', 'reconsent']).toContain(reason)
      // Granted by the rule or not: nothing was, that was written after the suspension.
      const [last] = await run<{ type: string }>(
        `select type from activity where type in ('rule.suspended', 'grant.created')
         order by xid desc, n desc limit 1`,
      )
      expect([round, reason, last?.type]).toEqual([round, reason, 'rule.suspended'])
      expect(await status(run)).toBe('suspended')
      await inTx(a, (tx) => endByPerson(a, tx, person('maya'), session))
      must(await confirm(pair(), 4))
      must(await adopt(pair(), 3))
    }
    await expectSound(run)
  })

  test('a confirmation of what was seen never puts a rule in force under what was not', async () => {
    const { run } = pair()
    await publish(run, 5, '[{"permission": "dashboard:view", "resource": "dashboard/*/*"}]')
    for (let round = 0; round < ROUNDS; round++) {
      must(await adopt(pair(), 4))
      const [adopted, confirmed] = await Promise.all([adopt(pair(), 5), confirm(pair(), 4)])
      expect(codeOf(adopted)).toBe('ok')
      expect(['ok', 'change_superseded']).toContain(codeOf(confirmed))
      // Whoever came first: under version 5 the rule waits.
      expect(await status(run)).toBe('suspended')
      must(await confirm(pair(), 5))
      must(await adopt(pair(), 3))
    }
    await expectSound(run)
  })
})
