import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { giveUserPermission } from '../../src/flows/admin/users.ts'
import { claimSubagent, refreshToken } from '../../src/flows/exchange-token.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import type { Ctx } from '../../src/ports.ts'
import {
  answer,
  asAgent,
  asked,
  BRIEFS,
  codeOf,
  exchange,
  inTx,
  must,
  person,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

/** Re-issues that come at once share a transaction and one read: each still answers for its own session alone. */
const reissue = (ctx: Ctx, token: string) =>
  refreshToken(ctx, BRIEFS, { refreshToken: token, resource: undefined })

const BOARD = { permission: 'dashboard:view', resource: 'dashboard/board' }

twoInstances('re-issues that come at once', (pair) => {
  test('each has its own session’s grants, and a token that is none takes nobody with it', async () => {
    const { a, b, run } = pair()
    await inTx(a, (tx) => giveUserPermission(a, person('adam'), 'usr_maya', BOARD, tx))
    const sessions: { session: SessionId; token: string; holds: boolean }[] = []
    for (let n = 0; n < 6; n++) {
      const started = must(await exchange(a))
      const session = started.sessionId as SessionId
      // Every other one holds something.
      if (n % 2 === 0) must(await answer(a, await asked(a, run, session, [BOARD]), 'allow_once'))
      sessions.push({ session, token: started.refreshToken ?? '', holds: n % 2 === 0 })
    }
    const all = Array.from({ length: 48 }, (_, i) => i)
    const results = await Promise.all(
      all.map((i) => {
        const ctx = i % 3 === 0 ? a : b
        return reissue(ctx, i % 8 === 7 ? `no-such-token-${i}` : (sessions[i % 6]?.token ?? ''))
      }),
    )
    for (const [i, result] of results.entries()) {
      if (i % 8 === 7) {
        expect(codeOf(result)).toBe('refresh_token_invalid')
        continue
      }
      const of = sessions[i % 6]
      const { claims, sessionId } = must(result)
      expect([sessionId, claims.sid]).toEqual([of?.session, of?.session])
      expect(claims.authorization_details).toHaveLength(of?.holds ? 1 : 0)
    }
    await expectSound(run)
  })

  test('of one tree, parent and child together: a loss is on record once, and nobody carries it', async () => {
    const { a, b, run } = pair()
    const started = must(await exchange(a))
    const root = started.sessionId as SessionId
    must(await answer(a, await asked(a, run, root, [BOARD]), 'allow_once'))
    const parent = must(await reissue(a, started.refreshToken ?? ''))
    const child = must(
      await startSubagent(a, await asAgent(run, root), {
        template: 'email-drafter',
        readOnly: true,
      }),
    )
    const claimed = must(
      await claimSubagent(a, BRIEFS, parent.claims, { sessionId: child.id, resource: undefined }),
    )
    expect(claimed.claims.authorization_details).toHaveLength(1)
    // Taken past the flows, so that the re-issues themselves notice.
    await run(
      `delete from user_permission where user_id = 'usr_maya' and resource = 'dashboard/board'`,
    )
    const tokens = [started.refreshToken ?? '', claimed.refreshToken ?? '']
    const results = await Promise.all(
      Array.from({ length: 16 }, (_, i) => reissue(i % 4 < 2 ? a : b, tokens[i % 2] ?? '')),
    )
    for (const result of results) expect(must(result).claims.authorization_details).toEqual([])
    const versions = new Set(results.map((one) => must(one).claims.session_version))
    expect(versions).toEqual(new Set([2]))
    const ended = await run(
      `select session_id from activity where type = 'grant.ended' and root_session_id = $1`,
      [root],
    )
    expect(ended).toHaveLength(2)
    await expectSound(run)
  })
})
