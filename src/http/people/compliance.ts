import { z } from 'zod'
import {
  consentHealth,
  healthQuery,
  recordDetail,
  reviewQuery,
  reviews,
  TREE_EXPORT_FORMATS,
  timeline,
  treeFilter,
  treeSummary,
} from '../../../schema/compliance.ts'
import { id, listOf } from '../../../schema/people.ts'
import { fail, ok } from '../../fault.ts'
import { removeRule } from '../../flows/admin/remove-rule.ts'
import {
  readDetail,
  readHealth,
  readReviews,
  readTimeline,
  readTrees,
} from '../../flows/compliance.ts'
import {
  exportTrees,
  TREES_CSV_HEADER,
  treeCsvLines,
  treeLine,
} from '../../flows/export-sessions.ts'
import { secondsNow } from '../../flows/live.ts'
import { gone, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { fileOf } from './file-stream.ts'
import { byTimeAndId, cursor, limitOf, page } from './page.ts'
import { read, write } from './write.ts'

/** Compliance: session by session, record by record, and how consent goes. */
const tag = 'compliance'
const byId = z.strictObject({ id })
/** Each tree is summed up whole, so fewer come at once than in other lists. */
const TREES_MAX = 50

const mountSessions: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity/sessions',
      summary:
        'What agents accessed, session by session: asked, decided how and by whom, granted, called. All for auditors and org admins, else your own',
      tag,
      query: treeFilter.extend({ limit: limitOf(TREES_MAX), cursor: cursor(byTimeAndId) }),
      answers: { 200: listOf(treeSummary) },
    },
    (c, { query }) =>
      read(c, 'read_trees', async (tx) => {
        const { limit: most, cursor: after, ...filter } = query
        const now = secondsNow(c.var.ctx.clock)
        const trees = await readTrees(tx, c.var.caller, { filter, after, limit: most + 1, now })
        return ok(
          page(trees, {
            limit: most,
            item: (tree) => tree,
            key: ({ session }) => [Date.parse(session.created_at), session.id],
          }),
        )
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity/sessions/{id}/timeline',
      summary:
        'One root session with its subagents as lanes: records, grants from when to when, calls',
      tag,
      params: byId,
      answers: { 200: timeline },
      faults: ['session_not_found'],
    },
    (c, { params }) =>
      read(c, 'read_timeline', async (tx) => {
        const now = secondsNow(c.var.ctx.clock)
        const found = await readTimeline(tx, c.var.caller, { root: params.id, now })
        return found === null ? fail('session_not_found') : ok(found)
      }),
  )
}

const TREE_FORMATS = {
  csv: {
    type: 'text/csv; charset=utf-8; header=present',
    head: TREES_CSV_HEADER,
    line: treeCsvLines,
    extension: 'csv',
  },
  ndjson: { type: 'application/x-ndjson', head: '', line: treeLine, extension: 'ndjson' },
} as const

const mountSessionsExport: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity/sessions/export',
      summary:
        'The same sessions as the list, all of them, as a file: NDJSON as listed, CSV a row an item. That it was made is recorded',
      tag,
      query: treeFilter.extend({ format: z.enum(TREE_EXPORT_FORMATS) }),
      answers: { 200: z.string() },
      answerType: 'application/x-ndjson',
    },
    (c, { query }) => {
      const { format, ...filter } = query
      const pages = exportTrees(c.var.ctx, c.var.caller, { filter, format })
      return fileOf(c, 'sessions', pages, TREE_FORMATS[format])
    },
  )

/** After all that is under `/activity` by name. */
const mountRecord: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/activity/{id}',
      summary: 'One record: what decided, and whether its place in the chain holds',
      tag,
      params: byId,
      answers: { 200: recordDetail },
    },
    (c, { params }) =>
      read(c, 'read_record', async (tx) => {
        const found = await readDetail(tx, c.var.caller, params.id)
        return found === null ? fail('not_found') : ok(found)
      }),
  )

const mountReviews: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/reviews',
      summary: 'Rules nobody needs, templates whose people say yes to all, grants never used',
      tag,
      roles: READERS,
      query: reviewQuery,
      answers: { 200: reviews },
    },
    (c, { query }) =>
      read(c, 'read_reviews', async (tx) =>
        ok(await readReviews(tx, c.var.caller, { ...query, now: secondsNow(c.var.ctx.clock) })),
      ),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/consent-health',
      summary: 'Approve rate, time to decide and prompts a session',
      tag,
      roles: READERS,
      query: healthQuery,
      answers: { 200: consentHealth },
    },
    (c, { query }) =>
      read(c, 'read_consent_health', async (tx) =>
        ok(await readHealth(tx, c.var.caller, { ...query, now: secondsNow(c.var.ctx.clock) })),
      ),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: '/reviews/rules/{id}',
      summary: 'Take an allow rule of anyone’s away, so that they are asked again',
      tag,
      roles: WRITERS,
      params: byId,
      idempotent: true,
      answers: { 204: null },
    },
    (c, { params }) =>
      write(c, 'remove_rule', async (tx) =>
        gone(await removeRule(c.var.ctx, tx, c.var.caller, params.id)),
      ),
  )
}

export const mountCompliance: Mount = (api) => {
  mountSessions(api)
  mountSessionsExport(api)
  mountRecord(api)
  mountReviews(api)
}
