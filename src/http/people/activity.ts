import { z } from 'zod'
import { activityFilter, activityRecord, verification } from '../../../schema/activity.ts'
import { id, listOf } from '../../../schema/people.ts'
import { EXPORT_FORMATS } from '../../core/activity.ts'
import { withTx } from '../../db/tx.ts'
import { ok } from '../../fault.ts'
import {
  CSV_HEADER,
  csvLine,
  exportActivity,
  ndjsonLine,
  ocsfLine,
  readActivity,
} from '../../flows/read-activity.ts'
import { verifyActivity } from '../../flows/verify-activity.ts'
import { READERS } from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext, problemFor } from './endpoint.ts'
import { fileOf } from './file-stream.ts'
import { cursor, limit, page } from './page.ts'
import { read } from './write.ts'

const tag = 'activity'
// A bigint has at most 19 digits.
const PLACE = z.tuple([z.string().regex(/^[0-9]{1,18}$/)])

const mountList: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity',
      summary: 'The record, newest first: all of it for auditors and org admins, else your own',
      tag,
      query: activityFilter.extend({ limit, cursor: cursor(PLACE) }),
      answers: { 200: listOf(activityRecord) },
    },
    (c, { query }) =>
      read(c, 'read_activity', async (tx) => {
        const { limit: most, cursor: after, ...filter } = query
        const [before = null] = after ?? []
        const rows = await readActivity(tx, c.var.caller, { filter, before, limit: most + 1 })
        return ok(page(rows, { limit: most, item: (row) => row.record, key: (row) => [row.n] }))
      }),
  )

const FORMATS = {
  csv: {
    type: 'text/csv; charset=utf-8; header=present',
    head: CSV_HEADER,
    line: csvLine,
    extension: 'csv',
  },
  ndjson: { type: 'application/x-ndjson', head: '', line: ndjsonLine, extension: 'ndjson' },
  ocsf: { type: 'application/x-ndjson', head: '', line: ocsfLine, extension: 'ocsf.ndjson' },
} as const

const mountExport: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity/export',
      summary:
        'The same records as the list, oldest first, as a file. That it was made is recorded',
      tag,
      query: activityFilter.extend({ format: z.enum(EXPORT_FORMATS) }),
      answers: { 200: z.string() },
      answerType: 'application/x-ndjson',
    },
    async (c, { query }) => {
      const { format, ...filter } = query
      const pages = exportActivity(c.var.ctx, c.var.caller, { filter, format })
      return fileOf(c, 'activity', pages, FORMATS[format])
    },
  )

const sessionExists = (c: PeopleContext, session: string): Promise<boolean> =>
  withTx(c.var.ctx.db, 'find_session', async (tx) => {
    const rows = await tx.sql`
      select id from session where tenant_id = ${c.var.tenant.id} and id = ${session}`
    return rows.length === 1
  })

const mountVerify =
  (trusted: readonly string[] | undefined): Mount =>
  (api) =>
    endpoint(
      api,
      {
        method: 'get',
        path: '/activity/verify',
        summary: 'Recompute the chains of the record, and what signed checkpoints anchor of it',
        tag,
        roles: READERS,
        query: z.strictObject({ session: id.optional() }),
        answers: { 200: verification },
      },
      async (c, { query }) => {
        const { session } = query
        if (session !== undefined && !(await sessionExists(c, session)))
          return problemFor(c, { code: 'session_not_found' })
        const keys = c.var.deps.trustedKeys ?? trusted
        const of = { tenantId: c.var.tenant.id, session, trusted: keys }
        return Response.json(await verifyActivity(c.var.ctx, of))
      },
    )

/** `trustedKeys`: thumbprints of the keys that checkpoints may be signed with; absent: each key that stands beside one. */
export const activityMount =
  (of: { readonly trustedKeys?: readonly string[] } = {}): Mount =>
  (api) => {
    mountList(api)
    mountExport(api)
    mountVerify(of.trustedKeys)(api)
  }

export const mountActivity: Mount = activityMount()
