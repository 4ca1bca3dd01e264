import type { Context } from 'hono'
import { z } from 'zod'
import {
  catalogDiff,
  catalogPublished,
  catalogVersion,
  proposal,
  proposalReview,
  rollBack,
} from '../../../schema/catalog.ts'
import { id as idShape, listOf } from '../../../schema/people.ts'
import { FILE_BYTES_MAX, readPermissionsFile } from '../../../schema/permissions-file.ts'
import { service } from '../../../schema/services.ts'
import type { Slice } from '../../core/slice.ts'
import { loosens } from '../../core/slice-diff.ts'
import { FIRST } from '../../db/directory.ts'
import {
  operatorTenant,
  type ProposalRow,
  selectProposals,
  selectServices,
  selectVersions,
  type VersionRow,
} from '../../db/registry.ts'
import type { Tx } from '../../db/tx.ts'
import { iso } from '../../db/view-sessions.ts'
import { type Fault, fail, ok, type Result } from '../../fault.ts'
import type { ReadFile } from '../../flows/check-catalog.ts'
import {
  diffCatalog,
  type Published,
  publishCatalog,
  reviewProposal,
  rollBackCatalog,
} from '../../flows/publish-catalog.ts'
import { problemResponse } from '../problem.ts'
import { serviceCallerOf } from '../service-client.ts'
import { byId, paged } from './admin-common.ts'
import {
  type BareEnv,
  endpoint,
  type Mount,
  type PeopleContext,
  type StaffRole,
  serviceEndpoint,
} from './endpoint.ts'
import { cursor, limit, page } from './page.ts'
import { serviceView } from './service-view.ts'
import { read, write } from './write.ts'

const tag = 'catalog publishing'
const STAFF: readonly StaffRole[] = ['org_admin', 'auditor', 'builder', 'reviewer']
const SERVICES = '/catalog/services'
const ofService = z.strictObject({ service: z.string().min(1).max(64) })
const versionNumber = z
  .string()
  .regex(/^[1-9][0-9]{0,8}$/)
  .transform(Number)

/** The catalog is the deployment's: in any other tenant than its operator's there is nothing of this. */
export async function ofOperator<T>(
  c: PeopleContext,
  tx: Tx,
  body: () => Promise<Result<T>>,
): Promise<Result<T>> {
  return (await operatorTenant(tx)) === c.var.tenant.id ? body() : fail('not_found')
}

const fileFrom = (body: unknown): ReadFile => {
  const { errors, slice, mentions } = readPermissionsFile(body)
  return {
    errors: errors.map((error) => ({ path: error.pointer, message: error.message })),
    slice,
    mentions,
  }
}

const verify = (c: Context<BareEnv>) =>
  serviceCallerOf(c.var.ctx, c.var.tenant, c.req.raw, c.req.param('service') ?? '')

const refused = (c: Context<BareEnv>, fault: Fault): Response =>
  problemResponse(fault, c.var.requestId, { presented: true })

const publishedView = (p: Published) => ({
  service: p.service,
  version: p.version,
  published: p.published,
  changes: p.changes,
  ...(p.proposal === undefined ? {} : { proposal: p.proposal }),
  sessions_narrowed: p.sessionsNarrowed,
  grants_ended: p.grantsEnded,
})

const answer = (c: Context<BareEnv>, result: Result<Published>): Response =>
  result.ok
    ? Response.json(publishedView(result.value), {
        status: result.value.published ? 201 : 200,
        headers: { ETag: `"${result.value.version}"` },
      })
    : refused(c, result.fault)

/** The version that a publisher knew, from the query or from `If-Match: "12"`; both must agree. */
function baseOf(c: Context<BareEnv>, asked: number | undefined): Result<number | undefined> {
  const header = c.req.header('If-Match')
  if (header === undefined) return ok(asked)
  const [, digits] = /^"(\d{1,9})"$/.exec(header.trim()) ?? []
  const matched = digits === undefined ? undefined : Number(digits)
  const wrong = matched === undefined || (asked !== undefined && asked !== matched)
  const message = 'must be the version of this service that you know, as in "12"'
  return wrong
    ? fail('request_malformed', { errors: [{ path: 'If-Match', message }] })
    : ok(matched)
}

const file = z.unknown().meta({
  type: 'object',
  description: 'permissions.json, as schema/json/permissions-file.json describes it',
})

const mountPublishing: Mount = (api) => {
  serviceEndpoint(
    api,
    {
      method: 'put',
      path: `${SERVICES}/{service}`,
      summary: 'Publish a service’s part of the catalog. What loosens waits for security',
      tag,
      verify,
      params: ofService,
      query: z.strictObject({
        base_version: z
          .string()
          .regex(/^[0-9]{1,9}$/, { error: 'must be a version' })
          .transform(Number)
          .optional(),
      }),
      body: file,
      bodyBytesMax: FILE_BYTES_MAX,
      answers: { 200: catalogPublished, 201: catalogPublished },
      faults: ['unprocessable', 'catalog_changed', 'forbidden'],
    },
    async (c, { body, query, service: caller }) => {
      const base = baseOf(c, query.base_version)
      if (!base.ok) return refused(c, base.fault)
      const input = { file: fileFrom(body), baseVersion: base.value }
      return answer(c, await publishCatalog(c.var.ctx, caller, input))
    },
  )
  serviceEndpoint(
    api,
    {
      method: 'post',
      path: `${SERVICES}/{service}/diff`,
      summary: 'What publishing would change, and what of it would wait. Writes nothing',
      tag,
      verify,
      params: ofService,
      body: file,
      bodyBytesMax: FILE_BYTES_MAX,
      answers: { 200: catalogDiff },
      faults: ['unprocessable', 'forbidden'],
    },
    async (c, { body, service: caller }) => {
      const diff = await diffCatalog(c.var.ctx, caller, fileFrom(body))
      if (!diff.ok) return refused(c, diff.fault)
      const { version, changes } = diff.value
      const waits = loosens(changes).length > 0
      return Response.json({ service: caller.service, base_version: version, changes, waits })
    },
  )
  serviceEndpoint(
    api,
    {
      method: 'post',
      path: `${SERVICES}/{service}/rollback`,
      summary: 'Publish an earlier version’s content again, under the same rule',
      tag,
      verify,
      params: ofService,
      body: rollBack,
      answers: { 200: catalogPublished, 201: catalogPublished },
      faults: ['unprocessable', 'forbidden'],
    },
    async (c, { body, service: caller }) =>
      answer(c, await rollBackCatalog(c.var.ctx, caller, body)),
  )
}

const versionView = (v: VersionRow) => ({
  version: v.version,
  service: v.service,
  published_by: v.publishedBy,
  published_at: iso(v.publishedAt),
  how: v.how,
})
const withSlice = <T>(view: T, slice: Slice | null) => (slice === null ? view : { ...view, slice })

export const servicesQuery = z.strictObject({
  limit,
  cursor: cursor(z.tuple([z.string().max(64)])),
})

/** Services by id, for the operator's staff; in any other tenant there is nothing here. */
export const listServices = (
  c: PeopleContext,
  query: z.output<typeof servicesQuery>,
): Promise<Response> =>
  read(c, 'list_services', (tx) =>
    ofOperator(c, tx, async () => {
      const [after = ''] = query.cursor ?? []
      const rows = await selectServices(tx, { after, limit: query.limit + 1 })
      const how = { limit: query.limit, item: serviceView(c.var.ctx.clock.now()) }
      return ok(page(rows, { ...how, key: (row) => [row.id] }))
    }),
  )

const mountVersions: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: SERVICES,
      summary: 'Services that publish here, by id',
      tag,
      roles: STAFF,
      query: servicesQuery,
      answers: { 200: listOf(service) },
    },
    (c, { query }) => listServices(c, query),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${SERVICES}/{service}/versions`,
      summary: 'What a service published, newest first',
      tag,
      roles: STAFF,
      params: ofService,
      query: z.strictObject({ limit, cursor: cursor(z.tuple([z.number().int().min(0)])) }),
      answers: { 200: listOf(catalogVersion) },
    },
    (c, { params, query }) =>
      read(c, 'list_versions', (tx) =>
        ofOperator(c, tx, async () => {
          const [known] = await selectServices(tx, { id: params.service, after: '', limit: 1 })
          if (known === undefined) return fail('not_found', { detail: 'No such service.' })
          const [before = 2 ** 31 - 1] = query.cursor ?? []
          const of = { service: params.service, before, limit: query.limit + 1 }
          const rows = await selectVersions(tx, of)
          const how = { limit: query.limit, item: versionView }
          return ok(page(rows, { ...how, key: (row) => [row.version] }))
        }),
      ),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: `${SERVICES}/{service}/versions/{n}`,
      summary: 'One version, with what was in force from it on',
      tag,
      roles: STAFF,
      params: z.strictObject({ service: z.string().min(1).max(64), n: versionNumber }),
      answers: { 200: catalogVersion },
    },
    (c, { params }) =>
      read(c, 'read_version', (tx) =>
        ofOperator(c, tx, async () => {
          const of = { service: params.service, version: params.n, before: params.n + 1, limit: 1 }
          const [row] = await selectVersions(tx, of)
          return row === undefined ? fail('not_found') : ok(withSlice(versionView(row), row.slice))
        }),
      ),
  )
}

const proposalView = (p: ProposalRow) => ({
  id: p.id,
  service: p.service,
  status: p.status,
  changes: p.changes,
  proposed_by: p.proposedBy,
  created_at: iso(p.createdAt),
  ...(p.version === null ? {} : { version: p.version }),
  ...(p.reviewedBy === null ? {} : { reviewed_by: p.reviewedBy }),
  ...(p.reviewedAt === null ? {} : { reviewed_at: iso(p.reviewedAt) }),
  ...(p.comment === null ? {} : { comment: p.comment }),
})

const mountProposals: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/catalog/proposals',
      summary: 'What waits for security, and what it said, newest first',
      tag,
      roles: STAFF,
      query: z.strictObject({
        ...paged,
        status: z.enum(['open', 'approved', 'sent_back', 'replaced']).optional(),
        service: z.string().min(1).max(64).optional(),
      }),
      answers: { 200: listOf(proposal) },
    },
    (c, { query }) =>
      read(c, 'list_proposals', (tx) =>
        ofOperator(c, tx, async () => {
          const { status, service: of } = query
          const rows = await selectProposals(tx, {
            ...{ tenantId: c.var.tenant.id, status, service: of },
            after: query.cursor ?? FIRST,
            limit: query.limit + 1,
          })
          return ok(
            page(rows, {
              limit: query.limit,
              item: proposalView,
              key: (row) => [Math.round(row.createdAt * 1000), row.id],
            }),
          )
        }),
      ),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/catalog/proposals/{id}',
      summary: 'One proposal, with the whole that it asks for',
      tag,
      roles: STAFF,
      params: byId,
      answers: { 200: proposal },
    },
    (c, { params }) =>
      read(c, 'read_proposal', (tx) =>
        ofOperator(c, tx, async () => {
          const of = { tenantId: c.var.tenant.id, id: params.id, after: FIRST, limit: 1 }
          const [row] = await selectProposals(tx, of)
          return row === undefined ? fail('not_found') : ok(withSlice(proposalView(row), row.slice))
        }),
      ),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/catalog/proposals/{id}/review',
      summary: 'Approve what loosens, or send it back. Approved, it is a further version',
      tag,
      roles: ['reviewer'],
      params: z.strictObject({ id: idShape }),
      body: proposalReview,
      idempotent: true,
      answers: { 200: proposal },
      faults: ['already_answered', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'review_proposal', (tx) =>
        ofOperator(c, tx, async () => {
          const input = { ...body, id: params.id }
          const reviewed = await reviewProposal(c.var.ctx, c.var.caller, input, tx)
          return reviewed.ok ? ok({ status: 200, body: proposalView(reviewed.value) }) : reviewed
        }),
      ),
  )
}

/** Before `/catalog/{id}`, which would take `services` for a permission. */
export const mountCatalogPublishing: Mount = (api) => {
  mountVersions(api)
  mountProposals(api)
  mountPublishing(api)
}
