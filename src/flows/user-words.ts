import type { AgentCaller } from '../callers.ts'
import type { Verdict } from '../core/decide.ts'
import { covers, overlaps } from '../core/item.ts'
import type { Item, SessionId } from '../core/vocabulary.ts'
import { type ItemJson, itemOf } from '../db/tree.ts'
import { withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'

type AnswerSql = ItemJson & {
  sessionId: SessionId
  reason: 'allowed_by_user' | 'denied_by_user'
  note: string
}

type Met = { readonly item: Item; readonly verdict: Verdict }

/** Verdicts that an earlier answer of the user led to. */
const FROM_AN_ANSWER = new Set(['already_held', 'denied_this_session'])

/**
 * The user's own words with the answers that these items meet again, for an agent that did not wait for them (SPEC
 * section 8: the note goes to the agent). A denial's words reach the whole tree, as the denial does.
 */
export async function userWords(
  ctx: Ctx,
  caller: AgentCaller,
  met: readonly Met[],
): Promise<(of: Met) => string | null> {
  if (!met.some(({ verdict }) => FROM_AN_ANSWER.has(verdict.reason))) return () => null
  const answers = await withTx(
    ctx.db,
    'user_words',
    (tx) => tx.sql<AnswerSql>`
      select i.permission_id as permission, i.resource, i.narrow, i.session_id as "sessionId",
        i.decision_reason as reason, r.note
      from request_item i join access_request r on r.id = i.request_id
      where r.root_id = ${caller.rootId} and r.note is not null
        and i.decision_reason in ('allowed_by_user', 'denied_by_user')
      order by r.settled_at desc, i.position`,
  )
  const led = (answer: AnswerSql, { item, verdict }: Met): boolean =>
    verdict.reason === 'denied_this_session'
      ? answer.reason === 'denied_by_user' && overlaps(itemOf(answer), item)
      : verdict.reason === 'already_held' &&
        answer.reason === 'allowed_by_user' &&
        answer.sessionId === caller.sessionId &&
        covers(itemOf(answer), item)
  return (of) => answers.find((answer) => led(answer, of))?.note ?? null
}
