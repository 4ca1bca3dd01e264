import { expect, test } from 'vitest'
import type { RequestId, SessionId } from '../../src/core/vocabulary.ts'
import { withTx } from '../../src/db/tx.ts'
import { answerPromptTx } from '../../src/flows/answer-prompt.ts'
import { refreshToken } from '../../src/flows/exchange-token.ts'
import type { RawItem } from '../../src/flows/items.ts'
import { createSession } from '../../src/flows/people-sessions.ts'
import { requestAccess } from '../../src/flows/request-access.ts'
import type { Ctx } from '../../src/ports.ts'
import { publishAccounts, restoreAccounts } from '../support/accounts-file.ts'
import { eachDatabase, type Run } from '../support/databases.ts'
import { APP, agentOf, exchange, instance, MAYA, must } from './support/callers.ts'

/**
 * A flow sends a fixed number of statements: it does not grow with what is asked, held or remembered. The bounds are what
 * the flows send today; a change that needs more has to say so here.
 */
const REQUEST_MOST = 14
const ANSWER_MOST = 17
const REISSUE_MOST = 11

/** Different items, all of the same permission. */
const items = (count: number, from = 0): RawItem[] =>
  Array.from({ length: count }, (_, i) => ({
    permission: 'accounts.rows:my_region',
    narrow: { renewal_in_days: { $lt: from + i } },
  }))

const start = async (ctx: Ctx, mode: 'ask' | 'bypass') => {
  const input = { agentId: APP.agentId, template: 'renewal-briefs', mode }
  return must(await withTx(ctx.db, 'test', (tx) => createSession(ctx, tx, MAYA, input))).id
}

const ask = (ctx: Ctx, session: SessionId, asked: readonly RawItem[]) =>
  requestAccess(ctx, agentOf(session), { items: asked, reason: 'r' }).then(must)

/** Statements that a call sends. */
async function cost(ctx: Ctx, call: () => Promise<unknown>): Promise<number> {
  const before = ctx.db.statements()
  await call()
  return ctx.db.statements() - before
}

const rules = (run: Run, count: number) =>
  run(
    `insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, narrow, effect, created_at)
     select 'rul_' || i, 'ten_acme', 'usr_maya', 'tpl_briefs', 'accounts.rows:my_region',
       jsonb_build_object('renewal_in_days', jsonb_build_object('$lt', 100000 + i)), 'allow', now()
     from generate_series(1, $1::integer) as i`,
    [count],
  )

eachDatabase('round trips', (database) => {
  const fresh = () => instance(database().db)

  test.each(['ask', 'bypass'] as const)(
    'of a request in mode %s: 20 items cost what one does',
    async (mode) => {
      const ctx = fresh()
      const [few, many] = [await start(ctx, mode), await start(ctx, mode)]
      const one = await cost(ctx, () => ask(ctx, few, items(1)))
      expect(await cost(ctx, () => ask(ctx, many, items(20)))).toBe(one)
      expect(one).toBeLessThanOrEqual(REQUEST_MOST)
    },
  )

  test('of a request: 200 grants held cost what one does', async () => {
    const ctx = fresh()
    const session = await start(ctx, 'bypass')
    await ask(ctx, session, items(1))
    const one = await cost(ctx, () => ask(ctx, session, items(1, 1000)))
    for (let from = 1; from <= 181; from += 20) await ask(ctx, session, items(20, from))
    expect(await cost(ctx, () => ask(ctx, session, items(1, 2000)))).toBe(one)
    const held = await database().run('select id from access_grant where session_id = $1', [
      session,
    ])
    expect(held.length).toBeGreaterThan(200)
  })

  test('of a request: 300 rules cost what one does', async () => {
    const ctx = fresh()
    const session = await start(ctx, 'ask')
    await rules(database().run, 1)
    const one = await cost(ctx, () => ask(ctx, session, items(1)))
    await database().run('delete from consent_rule')
    await rules(database().run, 300)
    expect(await cost(ctx, () => ask(ctx, session, items(1, 1000)))).toBe(one)
    await database().run('delete from consent_rule')
  })

  test('of a re-issue: 200 grants and 300 rules cost what none does', async () => {
    const ctx = fresh()
    const started = must(await exchange(ctx))
    const token = { refreshToken: started.refreshToken ?? '', resource: undefined }
    const reissue = async () => must(await refreshToken(ctx, APP, token))
    const none = await cost(ctx, reissue)
    await rules(database().run, 300)
    // By rule, twenty at a time.
    for (let from = 0; from < 200; from += 20)
      await ask(ctx, started.sessionId as SessionId, items(20, 100_001 + from))
    expect(await cost(ctx, reissue)).toBe(none)
    const held = await database().run('select id from access_grant where session_id = $1', [
      started.sessionId,
    ])
    expect(held).toHaveLength(200)
    expect(none).toBeLessThanOrEqual(REISSUE_MOST)
    await database().run('delete from consent_rule')
  })

  test('of a publish that takes a permission back: 90 sessions that hold it cost what one does', async () => {
    const ctx = fresh()
    const { run } = database()
    const withdrawn = async () => {
      let ended = 0
      const sent = await cost(ctx, async () => {
        ended = must(await publishAccounts(ctx, { delegable: false })).grantsEnded
      })
      return { sent, ended }
    }
    await restoreAccounts(ctx)
    const holding = async () => {
      const session = await start(ctx, 'bypass')
      await ask(ctx, session, [{ permission: 'accounts:read' }])
      return session
    }
    await holding()
    const one = await withdrawn()
    expect(one.ended).toBe(1)
    await restoreAccounts(ctx)
    const session = await holding()
    // More than one person may run at once, so their rows are copied.
    await run(
      `insert into session select (copy).* from (
         select jsonb_populate_record(s, jsonb_build_object('id', 'ses_c' || i, 'root_id', 'ses_c' || i,
           'refresh_hash', null)) as copy
         from session s, generate_series(1, 89) i where s.id = $1) copies`,
      [session],
    )
    await run(
      `insert into access_grant select (copy).* from (
         select jsonb_populate_record(g, jsonb_build_object('id', 'grt_c' || i, 'session_id', 'ses_c' || i,
           'request_id', null)) as copy
         from access_grant g, generate_series(1, 89) i where g.session_id = $1) copies`,
      [session],
    )
    expect(await withdrawn()).toEqual({ sent: one.sent, ended: 90 })
    expect(await run(`select id from access_grant where permission_id = 'accounts:read'`)).toEqual(
      [],
    )
    // Maya may start again.
    await run(`delete from session where id like 'ses_c%'`)
  })

  test('of a re-issue that finds a loss: 20 lost grants cost what one does', async () => {
    const ctx = fresh()
    const lose = async (count: number) => {
      const started = must(await exchange(ctx))
      await rules(database().run, count)
      await ask(ctx, started.sessionId as SessionId, items(count, 100_001))
      await database().run(`update consent_rule set effect = 'deny'`)
      const token = { refreshToken: started.refreshToken ?? '', resource: undefined }
      const spent = await cost(ctx, async () => must(await refreshToken(ctx, APP, token)))
      await database().run('delete from consent_rule')
      return spent
    }
    const one = await lose(1)
    expect(await lose(20)).toBe(one)
    expect(one).toBeLessThanOrEqual(REISSUE_MOST + 2)
  })

  test('of an answer: 20 items cost what one does', async () => {
    const ctx = fresh()
    const answer = async (count: number) => {
      const session = await start(ctx, 'ask')
      const { requestId } = await ask(ctx, session, items(count))
      const [row] = await database().run<{ digest: string; ids: string[] }>(
        `select q.digest, (select jsonb_agg(i.id) from request_item i where i.request_id = q.id) as ids
         from access_request q where q.id = $1`,
        [requestId ?? ''],
      )
      const answers = {
        requestId: requestId as RequestId,
        digest: row?.digest ?? '',
        items: (row?.ids ?? []).map((id) => ({ id, decision: 'allow_once' as const })),
      }
      return cost(ctx, async () => must(await answerPromptTx(ctx, MAYA, answers)))
    }
    const one = await answer(1)
    expect(await answer(20)).toBe(one)
    expect(one).toBeLessThanOrEqual(ANSWER_MOST)
  })
})
