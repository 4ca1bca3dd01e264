import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { deleteRule } from '../../src/flows/edit-rules.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { endByPerson } from '../../src/flows/people-sessions.ts'
import { sweep } from '../../src/flows/sweep.ts'
import type { Run } from '../support/databases.ts'
import {
  answer,
  asAgent,
  ask,
  asked,
  both,
  codeOf,
  inOrder,
  inTx,
  lockOf,
  must,
  narrowed,
  pause,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const READ = [{ permission: 'accounts:read' }]
const ROUNDS = 15

const heldBy = async (run: Run, session: SessionId): Promise<number> => {
  const rows = await run('select id from access_grant where session_id = $1', [session])
  return rows.length
}

const endsOf = async (run: Run, request: string): Promise<readonly string[]> => {
  const rows = await run<{ reason: string }>(
    `select data ->> 'reason' as reason from activity
     where type = 'access.decided' and data ->> 'request_id' = $1`,
    [request],
  )
  return rows.map((row) => row.reason)
}

const finish = async (pair: Parameters<typeof inOrder>[0], ...sessions: SessionId[]) => {
  for (const id of sessions) await inTx(pair.a, (tx) => endByPerson(pair.a, tx, person('maya'), id))
}

twoInstances('an answer', (pair) => {
  test('I16 in two tabs: exactly one wins, the other hears that it was answered', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const session = await start(a)
      const question = await asked(a, run, session, READ)
      const [yes, no] = await both(answer(a, question, 'allow_once'), answer(b, question, 'deny'))
      expect([codeOf(yes), codeOf(no)].toSorted()).toEqual(['already_answered', 'ok'])
      expect(await heldBy(run, session)).toBe(yes.ok ? 1 : 0)
      const end = yes.ok ? 'allowed_by_user' : 'denied_by_user'
      expect(await endsOf(run, question.requestId)).toEqual([end])
      await finish(pair(), session)
    }
    await expectSound(run)
  })

  test('I5 that waits behind an end: the question was withdrawn, nothing is granted', async () => {
    const { a, b, run } = pair()
    const session = await start(a)
    const question = await asked(a, run, session, READ)
    const agent = await asAgent(run, session)
    const [ended, answered] = await inOrder(pair(), lockOf(session), [
      async () => codeOf(await endSession(b, agent, undefined)),
      async () => codeOf(await answer(a, question, 'allow_once')),
    ])
    expect({ ended, answered }).toEqual({ ended: 'ok', answered: 'request_cancelled' })
    expect(await heldBy(run, session)).toBe(0)
    expect(await endsOf(run, question.requestId)).toEqual(['cancelled'])
    await expectSound(run)
  })

  test('I5 that an end waits behind: it stands, and what it granted is gone with the session', async () => {
    const { a, b, run } = pair()
    const session = await start(a)
    const question = await asked(a, run, session, READ)
    const agent = await asAgent(run, session)
    const [answered, ended] = await inOrder(pair(), lockOf(session), [
      async () => codeOf(await answer(a, question, 'allow_once')),
      async () => codeOf(await endSession(b, agent, undefined)),
    ])
    expect({ answered, ended }).toEqual({ answered: 'ok', ended: 'ok' })
    expect(await heldBy(run, session)).toBe(0)
    expect(await endsOf(run, question.requestId)).toEqual(['allowed_by_user'])
    await expectSound(run)
  })

  test('I5 I16 and an end at once, many times: the prompt has one end and nothing is held', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const session = await start(a)
      const question = await asked(a, run, session, READ)
      const agent = await asAgent(run, session)
      const [answered, ended] = await both(
        answer(a, question, 'allow_always').then(codeOf),
        pause(Math.random() * 4).then(async () => codeOf(await endSession(b, agent, undefined))),
      )
      expect(['ok', 'request_cancelled']).toContain(answered)
      expect(ended).toBe('ok')
      expect(await heldBy(run, session)).toBe(0)
      expect(await endsOf(run, question.requestId)).toHaveLength(1)
      await run('delete from consent_rule')
    }
    await expectSound(run)
  })

  test('I16 and the sweep of what expired at once: allowed or expired, never both', async () => {
    const { a, b, run, advance } = pair()
    for (let round = 0; round < 5; round++) {
      const session = await start(a)
      const question = await asked(a, run, session, READ)
      await run(
        `update access_request set expires_at = created_at + interval '60 seconds' where id = $1`,
        [question.requestId],
      )
      advance(59)
      const answering = answer(a, question, 'allow_once').then(codeOf)
      advance(1)
      const [answered] = await Promise.all([answering, sweep(b), sweep(a)])
      expect(['ok', 'request_expired']).toContain(answered)
      expect(await endsOf(run, question.requestId)).toEqual([
        answered === 'ok' ? 'allowed_by_user' : 'expired',
      ])
      await finish(pair(), session)
    }
    await expectSound(run)
  })
})

twoInstances('a question', (pair) => {
  test('I16 asked at once for the same item is asked once', async () => {
    const { a, b, run, advance } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const session = await start(a)
      const agent = await asAgent(run, session)
      const results = await Promise.all([a, b, a, b].map((ctx) => ask(ctx, agent, READ)))
      const requests = results.map((result) => must(result).requestId)
      expect(new Set(requests).size).toBe(1)
      const pending = await run(
        `select id from request_item where session_id = $1 and outcome = 'pending'`,
        [session],
      )
      expect(pending).toHaveLength(1)
      await finish(pair(), session)
      advance(1)
    }
    await expectSound(run)
  })

  test('I16 that overlaps only in part asks for each item once', async () => {
    const { a, b, run } = pair()
    const session = await start(a)
    const agent = await asAgent(run, session)
    const results = await both(
      ask(a, agent, [narrowed(1), narrowed(2), ...READ]),
      ask(b, agent, [narrowed(2), narrowed(3), ...READ]),
    )
    for (const result of results)
      expect(must(result).items.map((item) => item.verdict.outcome)).toEqual(Array(3).fill('asked'))
    const [row] = await run<{ pending: number }>(
      `select count(*)::integer as pending from request_item where session_id = $1`,
      [session],
    )
    expect(row?.pending).toBe(4)
    await finish(pair(), session)
    await expectSound(run)
  })
})

twoInstances('Deny always', (pair) => {
  test('once it has answered, nothing that it overlaps is held anywhere', async () => {
    const { a, b, run, advance } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const asking = await start(a)
      const [bypass, other] = [
        await start(a, { mode: 'bypass' }),
        await start(b, { mode: 'bypass' }),
      ]
      const question = await asked(a, run, asking, [narrowed(1)])
      const agents = [await asAgent(run, bypass), await asAgent(run, other)] as const
      const requests = Array.from({ length: 8 }, async (_, i) => {
        await pause(Math.random() * 10)
        const result = await ask(i % 2 === 0 ? a : b, agents[i % 2] ?? agents[0], [
          narrowed(10 + i),
        ])
        // What was granted before the deny ended with it, and its token with it.
        return result.ok ? must(result).items[0]?.verdict.reason : codeOf(result)
      })
      await pause(Math.random() * 6)
      expect(codeOf(await answer(b, question, 'deny_always'))).toBe('ok')
      const overlapping = () =>
        run(`select id from access_grant where permission_id = 'accounts.rows:my_region'`)
      expect(await overlapping()).toEqual([])
      const outcomes = await Promise.all(requests)
      expect(['mode_bypass', 'deny_rule', 'token_stale']).toEqual(expect.arrayContaining(outcomes))
      expect(await overlapping()).toEqual([])
      await expectSound(run)

      const [rule] = await run<{ id: string }>(`select id from consent_rule where effect = 'deny'`)
      await inTx(a, (tx) => deleteRule(a, tx, person('maya'), rule?.id ?? ''))
      await finish(pair(), asking, bypass, other)
      advance(60)
    }
  })

  test('a request that waits behind it is refused by its rule', async () => {
    const { a, b, run } = pair()
    const [asking, bypass] = [await start(a), await start(a, { mode: 'bypass' })]
    const question = await asked(a, run, asking, [narrowed(1)])
    const agent = await asAgent(run, bypass)
    const [denied, requested] = await inOrder(pair(), lockOf(asking), [
      async () => codeOf(await answer(a, question, 'deny_always')),
      async () => must(await ask(b, agent, [narrowed(2)])).items[0]?.verdict.reason,
    ])
    expect({ denied, requested }).toEqual({ denied: 'ok', requested: 'deny_rule' })
    await finish(pair(), asking, bypass)
    await expectSound(run)
  })
})
