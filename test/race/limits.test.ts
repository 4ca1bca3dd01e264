import { expect, test } from 'vitest'
import { refreshToken } from '../../src/flows/exchange-token.ts'
import { freeze, unfreeze } from '../../src/flows/freeze.ts'
import { createSession, endByPerson } from '../../src/flows/people-sessions.ts'
import {
  asAgent,
  ask,
  BRIEFS,
  codeOf,
  exchange,
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

const tally = (codes: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const code of codes) counts[code] = (counts[code] ?? 0) + 1
  return counts
}

twoInstances('a limit', (pair) => {
  test('of 20 live roots an agent and user holds', async () => {
    const { a, b, run } = pair()
    const create = (i: number) => {
      const ctx = i % 2 === 0 ? a : b
      const input = { agentId: BRIEFS.agentId, template: 'renewal-briefs', mode: 'ask' } as const
      return inTx(ctx, (tx) => createSession(ctx, tx, person('omar'), input))
    }
    const results = await Promise.all(Array.from({ length: 26 }, (_, i) => create(i)))
    expect(tally(results.map(codeOf))).toEqual({ ok: 20, limit_reached: 6 })
    const live = await run(
      `select id from session where user_id = 'usr_omar' and status = 'active' and parent_id is null`,
    )
    expect(live).toHaveLength(20)
    await expectSound(run)
  })

  test('of 30 requests a minute holds for the whole tree, whichever instance is asked', async () => {
    const { a, b, run, advance } = pair()
    const session = await start(a, { mode: 'bypass' })
    const agent = await asAgent(run, session)
    const burst = (count: number, from: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, i) =>
          codeOf(await ask(i % 2 === 0 ? a : b, agent, [narrowed(from + i)])),
        ),
      )
    expect(tally(await burst(40, 0))).toEqual({ ok: 30, limit_reached: 10 })
    advance(59)
    expect(tally(await burst(4, 100))).toEqual({ limit_reached: 4 })
    advance(1)
    expect(tally(await burst(40, 200))).toEqual({ ok: 30, limit_reached: 10 })
    const held = await run('select id from access_grant where session_id = $1', [session])
    expect(held).toHaveLength(60)
    await expectSound(run)
  })

  test('of 10 open requests holds', async () => {
    const { a, b, run } = pair()
    const session = await start(a)
    const agent = await asAgent(run, session)
    const results = await Promise.all(
      Array.from({ length: 16 }, (_, i) => ask(i % 2 === 0 ? a : b, agent, [narrowed(i)])),
    )
    expect(tally(results.map(codeOf))).toEqual({ ok: 10, limit_reached: 6 })
    const open = await run(
      `select id from access_request where session_id = $1 and status = 'pending'`,
      [session],
    )
    expect(open).toHaveLength(10)
    await expectSound(run)
  })
})

twoInstances('a freeze', (pair) => {
  const FREEZES = [
    { scope: 'tenant', id: 'acme' },
    { scope: 'template', id: 'renewal-briefs' },
    { scope: 'agent', id: 'agt_briefs' },
    { scope: 'user', id: 'usr_maya' },
  ] as const

  test.each(FREEZES)(
    'of the $scope: once it has answered, nothing more is granted or issued',
    async (of) => {
      const { a, b, run, advance } = pair()
      for (let round = 0; round < 8; round++) {
        const started = must(await exchange(a))
        const bypass = await start(a, { mode: 'bypass' })
        const agent = await asAgent(run, bypass)
        const token = { refreshToken: started.refreshToken ?? '', resource: undefined }
        let returned = false
        const late: string[] = []
        const one = async (i: number) => {
          await pause(Math.random() * 15)
          const after = returned
          const ctx = i % 2 === 0 ? a : b
          const code =
            i % 3 === 0
              ? codeOf(await refreshToken(ctx, BRIEFS, token))
              : codeOf(await ask(ctx, agent, [narrowed(i)]))
          if (after) late.push(code)
        }
        const calls = Array.from({ length: 12 }, (_, i) => one(i))
        await pause(Math.random() * 8)
        const row = must(await inTx(b, (tx) => freeze(b, person('adam'), of, tx)))
        returned = true
        const [before] = await run<{ n: string }>('select max(n)::text as n from activity')
        await Promise.all(calls)
        expect(new Set(late)).toEqual(late.length === 0 ? new Set() : new Set(['frozen']))
        const after = await run(
          `select type from activity where n > $1::text::bigint and type in ('grant.created', 'token.issued')`,
          [before?.n ?? '0'],
        )
        expect(after).toEqual([])

        must(await inTx(a, (tx) => unfreeze(a, person('adam'), row.id, tx)))
        for (const id of [bypass, started.sessionId])
          await inTx(a, (tx) => endByPerson(a, tx, person('maya'), id))
        advance(60)
      }
      await expectSound(run)
    },
  )

  test('waits for a request that is being decided, and a later request finds it', async () => {
    const { a, b, run } = pair()
    const session = await start(a, { mode: 'bypass' })
    const agent = await asAgent(run, session)
    const of = { scope: 'user', id: 'usr_maya' } as const
    const codes = await inOrder(pair(), lockOf(session), [
      async () => codeOf(await ask(a, agent, [narrowed(1)])),
      async () => codeOf(await inTx(b, (tx) => freeze(b, person('adam'), of, tx))),
      async () => codeOf(await ask(a, agent, [narrowed(2)])),
    ])
    expect(codes).toEqual(['ok', 'ok', 'frozen'])
    const order = await run<{ type: string }>(
      `select type from activity where type in ('grant.created', 'freeze.created') order by n desc limit 2`,
    )
    expect(order.map((row) => row.type)).toEqual(['freeze.created', 'grant.created'])
    await run('delete from frozen')
    await expectSound(run)
  })

  test('starts of sessions and a freeze at once: none starts after it', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 8; round++) {
      const starts = Array.from({ length: 6 }, async (_, i) => {
        await pause(Math.random() * 8)
        return exchange(i % 2 === 0 ? a : b)
      })
      await pause(Math.random() * 5)
      const row = must(
        await inTx(b, (tx) => freeze(b, person('adam'), { scope: 'tenant', id: 'acme' }, tx)),
      )
      const [before] = await run<{ n: string }>('select max(n)::text as n from activity')
      const codes = tally((await Promise.all(starts)).map(codeOf))
      expect((codes.ok ?? 0) + (codes.frozen ?? 0)).toBe(6)
      const after = await run(
        `select type from activity where n > $1::text::bigint and type in ('session.started', 'token.issued')`,
        [before?.n ?? '0'],
      )
      expect(after).toEqual([])
      must(await inTx(a, (tx) => unfreeze(a, person('adam'), row.id, tx)))
      const live = await run<{ id: string }>(`select id from session where status = 'active'`)
      for (const { id } of live) await inTx(a, (tx) => endByPerson(a, tx, person('maya'), id))
    }
    await expectSound(run)
  })
})
