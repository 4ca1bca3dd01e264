import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { giveUserPermission, takeUserPermission } from '../../src/flows/admin/users.ts'
import { refreshToken } from '../../src/flows/exchange-token.ts'
import { endByPerson } from '../../src/flows/people-sessions.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import type { Ctx } from '../../src/ports.ts'
import type { Run } from '../support/databases.ts'
import {
  answer,
  asked,
  BRIEFS,
  both,
  codeOf,
  exchange,
  inOrder,
  inTx,
  lockOf,
  must,
  pause,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const BOARD = { permission: 'dashboard:view', resource: 'dashboard/board' }
const MAYA = 'usr_maya'

const give = async (ctx: Ctx): Promise<string> =>
  must(await inTx(ctx, (tx) => giveUserPermission(ctx, person('adam'), MAYA, BOARD, tx))).id

const take = (ctx: Ctx, id: string) =>
  inTx(ctx, (tx) => takeUserPermission(ctx, person('adam'), { userId: MAYA, id }, tx))

/** A session that holds Maya's board dashboard by her answer, and the permission that it rests on. */
async function holding(ctx: Ctx, run: Run) {
  await run(`delete from user_permission where resource = 'dashboard/board'`)
  const permission = await give(ctx)
  const { sessionId, refreshToken: token = '' } = must(await exchange(ctx))
  const session = sessionId as SessionId
  must(await answer(ctx, await asked(ctx, run, session, [BOARD]), 'allow_once'))
  const [grant] = await run<{ id: string }>('select id from access_grant where session_id = $1', [
    session,
  ])
  return { session, permission, token, grant: grant?.id ?? '' }
}

const reissue = (ctx: Ctx, token: string) =>
  refreshToken(ctx, BRIEFS, { refreshToken: token, resource: undefined })

const carried = async (ctx: Ctx, token: string): Promise<readonly string[]> =>
  must(await reissue(ctx, token)).claims.authorization_details.map((detail) => detail.grant_id)

const finish = (ctx: Ctx, session: SessionId) =>
  inTx(ctx, (tx) => endByPerson(ctx, tx, person('maya'), session))

/** Tokens that were issued with the grant after the loss was on record. */
const issuedAfterLoss = (run: Run, grant: string) =>
  run(
    `select i.n from activity i where i.type = 'token.issued' and i.data -> 'grants' ? $1 and i.n > (
       select max(n) from activity where type = 'admin.changed' and data ->> 'what' = 'user.permission_taken')`,
    [grant],
  )

twoInstances('I3 a re-issue while its user loses access', (pair) => {
  test('that waits behind the loss does not carry it', async () => {
    const { a, b, run } = pair()
    const { session, permission, token, grant } = await holding(a, run)
    const [, tokens] = await inOrder<readonly string[]>(
      pair(),
      `select id from user_permission where id = '${permission}' for update`,
      [async () => [codeOf(await take(b, permission))], () => carried(a, token)],
    )
    expect(tokens).toEqual([])
    expect(await issuedAfterLoss(run, grant)).toEqual([])
    expect(await run('select id from access_grant where id = $1', [grant])).toEqual([])
    await finish(a, session)
    await expectSound(run)
  })

  test('that the loss waits behind carries it, and the next one does not', async () => {
    const { a, b, run } = pair()
    const { session, permission, token, grant } = await holding(a, run)
    const [tokens] = await inOrder<readonly string[]>(pair(), lockOf(session), [
      () => carried(a, token),
      async () => [codeOf(await take(b, permission))],
    ])
    expect(tokens).toEqual([grant])
    expect(await issuedAfterLoss(run, grant)).toEqual([])
    expect(await carried(b, token)).toEqual([])
    await finish(a, session)
    await expectSound(run)
  })

  test('many times at once: no token that was issued after the loss carries it', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 20; round++) {
      const { session, permission, token, grant } = await holding(a, run)
      let lost = false
      const issues = Array.from({ length: 10 }, async (_, i) => {
        await pause(Math.random() * 12)
        const after = lost
        return { after, carries: await carried(i % 2 === 0 ? a : b, token) }
      })
      await pause(Math.random() * 6)
      expect(codeOf(await take(b, permission))).toBe('ok')
      lost = true
      const issued = await Promise.all(issues)
      expect(issued.filter((one) => one.after && one.carries.length > 0)).toEqual([])
      expect(await issuedAfterLoss(run, grant)).toEqual([])
      expect(await carried(a, token)).toEqual([])
      await finish(a, session)
    }
    await expectSound(run)
  })

  test('and two instances that follow the change: the grant ends once', async () => {
    const { a, b, run } = pair()
    const { session, permission, token } = await holding(a, run)
    expect(codeOf(await take(b, permission))).toBe('ok')
    await Promise.all([followFeed(a), followFeed(b), carried(a, token), carried(b, token)])
    const ended = await run(
      `select n from activity where session_id = $1 and type = 'grant.ended'`,
      [session],
    )
    expect(ended).toHaveLength(1)
    const [row] = await run<{ version: number }>('select version from session where id = $1', [
      session,
    ])
    expect(row?.version).toBe(2)
    await finish(a, session)
    await expectSound(run)
  })
})

twoInstances('a refresh storm', (pair) => {
  test('of 20 re-issues at once: all succeed, for the same session, on one chain', async () => {
    const { a, b, run } = pair()
    const { session, token, grant } = await holding(a, run)
    const issued = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => must(await reissue(i % 2 === 0 ? a : b, token))),
    )
    expect(new Set(issued.map((one) => one.sessionId))).toEqual(new Set([session]))
    expect(new Set(issued.map((one) => one.refreshToken))).toEqual(new Set([token]))
    expect(new Set(issued.map((one) => one.claims.jti)).size).toBe(20)
    for (const { claims } of issued) {
      expect(claims.session_version).toBe(1)
      expect(claims.authorization_details.map((d) => d.grant_id)).toEqual([grant])
    }
    const records = await run(
      `select n from activity where session_id = $1 and type = 'token.issued' and data ->> 'how' = 'reissue'`,
      [session],
    )
    expect(records).toHaveLength(20)
    await finish(a, session)
    await expectSound(run)
  })

  test('while the session ends: each re-issue is before the end or refused', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 10; round++) {
      const { session, token } = await holding(a, run)
      const storm = Array.from({ length: 10 }, async (_, i) => {
        await pause(Math.random() * 8)
        return codeOf(await reissue(i % 2 === 0 ? a : b, token))
      })
      await pause(Math.random() * 5)
      await finish(b, session)
      expect(['ok', 'session_over']).toEqual(expect.arrayContaining(await Promise.all(storm)))
      const [row] = await run<{ late: number }>(
        `select count(*)::integer as late from activity i where i.session_id = $1 and i.type = 'token.issued'
           and i.seq > (select seq from activity where session_id = $1 and type = 'session.ended')`,
        [session],
      )
      expect(row?.late).toBe(0)
    }
    await expectSound(run)
  })
})

twoInstances('a claim', (pair) => {
  test('of the same session twice: one client gets it, once', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < 10; round++) {
      const session = await start(a, { mode: 'auto' })
      const claims = await both(
        exchange(a, { sessionId: session }),
        exchange(b, { sessionId: session }),
      )
      expect(claims.map(codeOf).toSorted()).toEqual(['ok', 'session_claimed'])
      const winner = claims.find((one) => one.ok)
      const { refreshToken: token = '' } = must(winner ?? claims[0])
      expect(codeOf(await reissue(b, token))).toBe('ok')
      const records = await run<{ type: string }>(
        `select type from activity where session_id = $1 and type like 'token.%' order by seq`,
        [session],
      )
      expect(records.map((row) => row.type).toSorted()).toEqual([
        'token.issued',
        'token.issued',
        'token.refused',
      ])
      await finish(a, session)
    }
    await expectSound(run)
  })
})
