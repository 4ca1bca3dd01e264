import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { asAgent, ask, codeOf, must, narrowed, start, twoInstances } from './support/instances.ts'
import { expectSound } from './support/sound.ts'

/** Requests that come at once share a transaction and one read: each is still decided for its own session alone. */
twoInstances('requests that come at once', (pair) => {
  test('each is asked of its own session’s user, and one that is refused takes nobody with it', async () => {
    const { a, b, run } = pair()
    const sessions = await Promise.all(
      Array.from({ length: 6 }, (_, n) => start(a, { login: n % 2 === 0 ? 'maya' : 'omar' })),
    )
    const callers = await Promise.all(sessions.map((session) => asAgent(run, session)))
    const over = await start(a)
    const ended = await asAgent(run, over)
    must(await endSession(a, ended, undefined))
    const kinds = (n: number) => {
      const caller = callers[n % 6]
      if (caller === undefined) throw new Error('there are six')
      const ctx = n % 4 < 2 ? a : b
      if (n % 8 === 6) return ask(ctx, ended, [narrowed(n)])
      if (n % 8 === 7)
        return ask(ctx, caller, [{ permission: 'accounts:read', resource: 'no-such' }])
      // A session of its own for each number, and so each its own question.
      return ask(ctx, caller, [narrowed(n + 1)])
    }
    const all = Array.from({ length: 32 }, (_, n) => n)
    const results = await Promise.all(all.map(kinds))
    for (const [n, result] of results.entries()) {
      if (n % 8 === 6) expect(codeOf(result)).toBe('session_over')
      else if (n % 8 === 7) expect(codeOf(result)).toBe('item_invalid')
      else {
        const { items, requestId } = must(result)
        expect(items).toMatchObject([
          { item: narrowed(n + 1), verdict: { outcome: 'asked' }, requestId },
        ])
        const [row] = await run<{ session: SessionId; user: string; narrow: object }>(
          `select q.session_id as session, q.user_id as "user", i.narrow from access_request q
           join request_item i on i.request_id = q.id where q.id = $1`,
          [requestId ?? ''],
        )
        expect(row).toEqual({
          session: sessions[n % 6],
          user: n % 2 === 0 ? 'usr_maya' : 'usr_omar',
          narrow: narrowed(n + 1).narrow,
        })
      }
    }
    const written = await run(`select id from access_request`)
    expect(written).toHaveLength(24)
    await expectSound(run)
  })

  test('of one session: the same question is asked once, and another is not lost', async () => {
    const { a, b, run } = pair()
    const session = await start(a)
    const caller = await asAgent(run, session)
    const results = await Promise.all(
      Array.from({ length: 16 }, (_, n) => ask(n % 4 < 2 ? a : b, caller, [narrowed(1 + (n % 2))])),
    )
    const requests = results.map((one) => must(one).requestId)
    expect(new Set(requests.filter((_, n) => n % 2 === 0)).size).toBe(1)
    expect(new Set(requests).size).toBe(2)
    const asked = await run(`select id from access_request where session_id = $1`, [session])
    expect(asked).toHaveLength(2)
    const told = await run(
      `select seq from activity where session_id = $1 and type = 'access.requested'`,
      [session],
    )
    expect(told).toHaveLength(16)
    await expectSound(run)
  })
})
