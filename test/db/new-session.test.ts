import { expect, test } from 'vitest'
import { withTx } from '../../src/db/tx.ts'
import { createSession } from '../../src/flows/people-sessions.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { eachDatabase } from '../support/databases.ts'
import { APP, agentOf, exchange, instance, MAYA, must } from './support/callers.ts'
import { insert, ruleRow } from './support/renewals.ts'

/** I1: whatever the user has, has allowed for good, or lets pass by mode, a session starts with nothing. */
eachDatabase('I1 a new session holds nothing', (database) => {
  const held = (session: string) =>
    database().run('select id from access_grant where session_id = $1', [session])

  test('when the agent’s app starts it, and its token says so explicitly', async () => {
    await insert(database().run, 'consent_rule', ruleRow())
    const { sessionId, claims } = must(await exchange(instance(database().db)))
    expect(await held(sessionId)).toEqual([])
    expect(claims.authorization_details).toEqual([])
    expect(claims).not.toHaveProperty('scope')
  })

  test.each(['ask', 'auto', 'bypass'] as const)(
    'when its user creates it in mode %s',
    async (mode) => {
      const ctx = instance(database().db)
      const input = { agentId: APP.agentId, template: 'renewal-briefs', mode }
      const { id } = must(await withTx(ctx.db, 'test', (tx) => createSession(ctx, tx, MAYA, input)))
      expect(await held(id)).toEqual([])
      const requests = await database().run('select id from access_request where session_id = $1', [
        id,
      ])
      expect(requests).toEqual([])
    },
  )

  test('when it is a subagent of a session that holds nothing', async () => {
    const ctx = instance(database().db)
    const input = { agentId: APP.agentId, template: 'renewal-briefs', mode: 'bypass' } as const
    const { id } = must(await withTx(ctx.db, 'test', (tx) => createSession(ctx, tx, MAYA, input)))
    const child = must(
      await startSubagent(ctx, agentOf(id), { template: 'email-drafter', readOnly: false }),
    )
    expect(child.inherited).toEqual([])
    expect(await held(child.id)).toEqual([])
  })

  test('and that is all that starts wrote: records of the start, no grant anywhere', async () => {
    expect(await database().run('select id from access_grant')).toEqual([])
    const types = await database().run<{ type: string }>(
      'select distinct type from activity order by 1',
    )
    expect(types.map((row) => row.type)).toEqual([
      'session.started',
      'subagent.started',
      'token.issued',
    ])
  })
})
