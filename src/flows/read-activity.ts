import type { UserCaller } from '../callers.ts'
import type { ActivityRecord, ExportFormat } from '../core/activity.ts'
import { ocsfEvent } from '../core/ocsf.ts'
import { Journal } from '../db/activity.ts'
import {
  type ActivityFilter,
  activitySnapshot,
  type Placed,
  selectActivity,
  selectActivityAt,
} from '../db/activity-read.ts'
import type { TreeFilter } from '../db/compliance.ts'
import { type Tx, withTx } from '../db/tx.ts'
import type { Ctx } from '../ports.ts'

const SEES_ALL = ['auditor', 'org_admin']

/** Auditors and org admins see the whole tenant's record; everybody else what names them. */
export const scopeOf = (caller: UserCaller) => ({
  tenantId: caller.tenant.id,
  onlyUser: caller.staffRoles.some((role) => SEES_ALL.includes(role)) ? null : caller.userId,
})

/** One page of the record, newest first. `before` is a place as `Placed.n` gives it. */
export const readActivity = (
  tx: Tx,
  caller: UserCaller,
  of: {
    readonly filter: ActivityFilter
    readonly before: string | null
    readonly limit: number
  },
): Promise<readonly Placed[]> => selectActivity(tx, { ...scopeOf(caller), ...of })

const PAGE = 1000

/** A record's data has no undefined members. */
export const shown = (filter: ActivityFilter | TreeFilter) => JSON.parse(JSON.stringify(filter))

/**
 * The same records as the list shows, oldest first, in pages, so that any number of them never sits in memory. It is a
 * moment's picture: what commits after the first page is not in it, and no chain in it has a gap of its own making. That
 * there was an export is recorded before the first record leaves.
 */
export async function* exportActivity(
  ctx: Ctx,
  caller: UserCaller,
  of: { readonly filter: ActivityFilter; readonly format: ExportFormat },
): AsyncGenerator<readonly ActivityRecord[]> {
  const scope = scopeOf(caller)
  const snapshot = await withTx(ctx.db, 'begin_export', async (tx) => {
    const moment = await activitySnapshot(tx)
    const journal = new Journal(ctx, caller.tenant.id)
    journal.tenant(
      'admin.changed',
      {
        what: 'activity.exported',
        id: caller.tenant.id,
        by: caller.userId,
        changes: { format: of.format, filter: shown(of.filter) },
      },
      { userId: caller.userId },
    )
    await journal.write(tx)
    return moment
  })
  let after = '0'
  for (;;) {
    const page = { ...scope, filter: of.filter, snapshot, after, limit: PAGE }
    const rows = await withTx(ctx.db, 'export_activity', (tx) => selectActivityAt(tx, page))
    if (rows.length > 0) yield rows.map((row) => row.record)
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) return
    after = last.n
  }
}

const CSV_COLUMNS = [
  'id',
  'tenant_id',
  'seq',
  'at',
  'type',
  'agent_id',
  'user_id',
  'session_id',
  'root_session_id',
  'template',
  'data',
  'prev_hash',
  'hash',
] as const satisfies readonly (keyof ActivityRecord)[]

// What a spreadsheet would take for a formula, in the full-width forms too.
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/

/** RFC 4180, every cell quoted. A cell that a spreadsheet would run is made text by an apostrophe. */
export function csvCell(value: unknown): string {
  const text =
    value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  const safe = typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}

export const CSV_HEADER = `${CSV_COLUMNS.join(',')}\r\n`

export const csvLine = (record: ActivityRecord): string =>
  `${CSV_COLUMNS.map((name) => csvCell(record[name])).join(',')}\r\n`

export const ndjsonLine = (record: ActivityRecord): string => `${JSON.stringify(record)}\n`

export const ocsfLine = (record: ActivityRecord): string => `${JSON.stringify(ocsfEvent(record))}\n`
