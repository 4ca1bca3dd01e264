import type { UserCaller } from '../callers.ts'
import { Journal } from '../db/activity.ts'
import type { TreeFilter } from '../db/compliance.ts'
import { withTx } from '../db/tx.ts'
import type { Place } from '../db/view-sessions.ts'
import type { Ctx } from '../ports.ts'
import { readTrees } from './compliance.ts'
import { secondsNow } from './live.ts'
import { csvCell, shown } from './read-activity.ts'

type Tree = Awaited<ReturnType<typeof readTrees>>[number]
type Item = Tree['items'][number]

const PAGE = 50

/**
 * The sessions of `GET /activity/sessions` with the same filter, all pages of them, newest first; sessions that start later
 * are not among them. Each is as it stands when its page is read. That there was an export is recorded before the first
 * leaves.
 */
export async function* exportTrees(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly filter: TreeFilter; readonly format: 'csv' | 'ndjson' },
): AsyncGenerator<readonly Tree[]> {
  const { filter, format } = of
  await withTx(ctx.db, 'begin_export', async (tx) => {
    const journal = new Journal(ctx, caller.tenant.id)
    const changes = { format, filter: shown(filter) }
    journal.tenant(
      'admin.changed',
      { what: 'sessions.exported', id: caller.tenant.id, by: caller.userId, changes },
      { userId: caller.userId },
    )
    await journal.write(tx)
  })
  let after: Place | undefined
  for (;;) {
    const page = { filter, after, limit: PAGE, now: secondsNow(ctx.clock) }
    const trees = await withTx(ctx.db, 'export_trees', (tx) => readTrees(tx, caller, page))
    if (trees.length > 0) yield trees
    const last = trees.at(-1)
    if (last === undefined || trees.length < PAGE) return
    after = [Date.parse(last.session.created_at), last.session.id]
  }
}

const countsText = (list: Item['granted']): string =>
  list.map(({ by, reason, n }) => [n, by, reason].filter(Boolean).join(' ')).join('; ')

/** A row an item of a session, so that a spreadsheet can count; a session that asked for nothing has one row. */
const COLUMNS: readonly (readonly [string, (tree: Tree, item: Item | undefined) => unknown])[] = [
  ['session_id', ({ session }) => session.id],
  ['started_at', ({ session }) => session.created_at],
  ['ended_at', ({ session }) => session.ended_at],
  ['status', ({ session }) => session.status],
  ['end_reason', ({ session }) => session.end_reason],
  ['user_id', ({ user }) => user.id],
  ['login', ({ user }) => user.login],
  ['name', ({ user }) => user.name],
  ['agent_id', ({ session }) => session.agent_id],
  ['agent', ({ session }) => session.agent_name],
  ['template', ({ session }) => session.template],
  ['template_version', ({ session }) => session.template_version],
  ['mode', ({ session }) => session.mode],
  ['task', ({ session }) => session.task],
  ['subagents', ({ subagents }) => subagents],
  ['permission', (_, item) => item?.permission],
  ['title', (_, item) => item?.title],
  ['resource', (_, item) => item?.resource],
  ['sensitive', (_, item) => item?.sensitive],
  ['asked', (_, item) => item?.asked],
  ['granted', (_, item) => item && countsText(item.granted)],
  ['refused', (_, item) => item && countsText(item.refused)],
  ['ended', (_, item) => item && countsText(item.ended)],
  ['calls_allowed', (_, item) => item?.calls_allowed],
  ['calls_denied', (_, item) => item?.calls_denied],
  ['first_at', (_, item) => item?.first_at],
  ['last_at', (_, item) => item?.last_at],
]

export const TREES_CSV_HEADER = `${COLUMNS.map(([name]) => name).join(',')}\r\n`

export const treeCsvLines = (tree: Tree): string =>
  (tree.items.length === 0 ? [undefined] : tree.items)
    .map((item) => `${COLUMNS.map(([, cell]) => csvCell(cell(tree, item))).join(',')}\r\n`)
    .join('')

export const treeLine = (tree: Tree): string => `${JSON.stringify(tree)}\n`
