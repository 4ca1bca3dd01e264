import { createHash } from 'node:crypto'
import type { AppCaller } from '../callers.ts'
import type { UserId } from '../core/vocabulary.ts'
import type { Journal } from '../db/activity.ts'
import { type Node, subjectOf } from '../db/tree.ts'
import type { Tx } from '../db/tx.ts'
import type { Fault, Result } from '../fault.ts'

/** How a refresh token is kept and found. */
export const hashed = (secret: string): string => createHash('sha256').update(secret).digest('hex')

export type Refused = { node?: Node | undefined; userId?: UserId | undefined; how: string }

/** A refusal to a client that authenticated is on record, naming what is known (I12). */
export function noteRefusal(journal: Journal, app: AppCaller, fault: Fault, of: Refused): void {
  const data = {
    how: of.how,
    reason: fault.code,
    ...(fault.limit === undefined ? {} : { limit: fault.limit }),
  }
  if (of.node !== undefined) journal.session(subjectOf(of.node), 'token.refused', data)
  else
    journal.tenant('token.refused', data, {
      agentId: app.agentId,
      ...(of.userId === undefined ? {} : { userId: of.userId }),
    })
}

/** The record of a refusal is all that is written. */
export async function refuse(
  tx: Tx,
  journal: Journal,
  app: AppCaller,
  fault: Fault,
  of: Refused,
): Promise<Result<never>> {
  noteRefusal(journal, app, fault, of)
  await journal.write(tx)
  return { ok: false, fault }
}
