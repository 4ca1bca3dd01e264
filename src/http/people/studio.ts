import { z } from 'zod'
import { listOf, templateName } from '../../../schema/people.ts'
import {
  sponsorChange,
  template,
  templateDraft,
  templateNew,
  templateNote,
  templateReview,
  templateReviewed,
  templateValidate,
  templateValidated,
  templateVersion,
  VERSION_MAX,
} from '../../../schema/studio.ts'
import { diffTerms } from '../../core/terms.ts'
import { diffView } from '../../db/diff-view.ts'
import { selectTemplates, selectVersions } from '../../db/studio.ts'
import { ok, type Result } from '../../fault.ts'
import { exampleProblems } from '../../flows/admin/check-examples.ts'
import { checkTemplate } from '../../flows/admin/check-template.ts'
import {
  createTemplate,
  putDraft,
  submitDraft,
  termsOf,
  type Versioned,
  versioned,
  withdrawDraft,
} from '../../flows/admin/draft-template.ts'
import {
  changeSponsor,
  lastPublished,
  NO_TERMS,
  type Reviewed,
  retireVersion,
  reviewVersion,
} from '../../flows/admin/review-template.ts'
import { answered } from './admin-common.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { cursor, limit, page } from './page.ts'
import {
  BUILDERS,
  byRef,
  byVersion,
  REVIEWERS,
  revisionOf,
  STAFF,
  STUDIO,
  seen,
  seenVersion,
  tagged,
  templateView,
  versionView,
} from './studio-views.ts'
import { read, write } from './write.ts'

/** Templates: building and reviewing them (SPEC section 3). Only in the tenant that owns one; what it published is public. */
const tag = 'templates'
const view = (c: PeopleContext) => (of: Versioned) => versionView(c, of)
const STALE = ['revision_stale', 'wrong_state', 'unprocessable'] as const

const mountList: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates',
      summary:
        'Templates of this organisation, drafts too, and those that others published for all',
      tag,
      roles: STAFF,
      query: z.strictObject({ limit, cursor: cursor(z.tuple([templateName])) }),
      answers: { 200: listOf(template) },
    },
    (c, { query }) =>
      read(c, 'list_templates', async (tx) => {
        const tenantId = c.var.tenant.id
        const after = query.cursor?.[0] ?? ''
        const rows = await selectTemplates(tx, { tenantId, after, limit: query.limit + 1 })
        const own = rows.filter((row) => row.tenantId === tenantId)
        const others = rows.filter((row) => row.tenantId !== tenantId)
        const versions = new Map([
          ...(await selectVersions(tx, { templates: own, open: true })),
          ...(await selectVersions(tx, { templates: others, open: false })),
        ])
        return ok(
          page(rows, {
            limit: query.limit,
            item: (row) => templateView(c, row, versions.get(row.id) ?? []),
            key: (row) => [row.name],
          }),
        )
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates/{id}',
      summary: 'One template, by id or name',
      tag,
      roles: STAFF,
      params: byRef,
      answers: { 200: template },
    },
    (c, { params }) =>
      read(c, 'read_template', async (tx) => {
        const found = await seen(c, tx, params.id)
        return found.ok ? ok(templateView(c, found.value.template, found.value.versions)) : found
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates/{id}/versions/{n}',
      summary: 'One version. Drafts and what is in review: only where the template belongs',
      tag,
      roles: STAFF,
      params: byVersion,
      answers: { 200: templateVersion },
    },
    async (c, { params }) =>
      tagged(
        await read(c, 'read_template_version', async (tx) => {
          const found = await seenVersion(c, tx, params)
          if (!found.ok) return found
          const done = await versioned(tx, found.value.template, params.n)
          return done.ok ? ok(versionView(c, done.value)) : done
        }),
      ),
  )
}

const mountDrafts: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates',
      summary: 'A new template with version 1 as its draft',
      tag,
      roles: BUILDERS,
      body: templateNew,
      idempotent: true,
      answers: { 201: templateVersion },
      faults: ['already_exists'],
    },
    async (c, { body }) =>
      tagged(
        await write(c, 'create_template', async (tx) =>
          answered(await createTemplate(c.var.ctx, c.var.caller, body, tx), 201, view(c)),
        ),
      ),
  )
  endpoint(
    api,
    {
      method: 'put',
      path: '/templates/{id}/versions/{n}',
      summary:
        'Write the open draft, or open the next version. A stale revision is refused with the draft as it stands',
      tag,
      roles: BUILDERS,
      params: byVersion,
      body: templateDraft,
      idempotent: true,
      answers: { 200: templateVersion },
      faults: STALE,
    },
    async (c, { params, body }) => {
      const { revision, base, ...draft } = body
      const of = { ref: params.id, version: params.n, base, draft, view: view(c) }
      const input = { ...of, revision: revisionOf(c, revision) }
      return tagged(
        await write(c, 'put_template_draft', async (tx) =>
          answered(await putDraft(c.var.ctx, c.var.caller, input, tx), 200, view(c)),
        ),
      )
    },
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/validate',
      summary:
        'What would keep this draft from being published: all of it at once, nothing written',
      tag,
      roles: STUDIO,
      body: templateValidate,
      answers: { 200: templateValidated },
    },
    (c, { body }) =>
      read(c, 'validate_template', async (tx) => {
        const tenantId = c.var.tenant.id
        const terms = await termsOf(tx, c.var.caller, body.draft)
        const of = { tenantId, template: body.name, terms }
        const problems = [
          ...(await checkTemplate(tx, of)),
          ...(await exampleProblems(tx, terms, body.examples ?? [])),
        ]
        // Of a template that is somebody else's there is no draft, and nothing to compare with.
        const found = body.name === undefined ? null : await seen(c, tx, body.name)
        const own = found?.ok && found.value.template.tenantId === tenantId ? found.value : null
        const last = lastPublished(own?.versions ?? [], VERSION_MAX + 1)
        const diff = diffTerms(last ?? { ...NO_TERMS, limits: terms.limits }, terms)
        return ok({
          ok: problems.length === 0,
          problems,
          ...(last === undefined ? {} : { against: last.version }),
          diff: await diffView(tx, tenantId, diff),
        })
      }),
  )
}

const mountMoves: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/{id}/versions/{n}/submit',
      summary: 'Hand a complete draft to review: it stands still from here on',
      tag,
      roles: BUILDERS,
      params: byVersion,
      body: templateNote,
      bodyOptional: true,
      idempotent: true,
      answers: { 200: templateVersion },
      faults: STALE,
    },
    async (c, { params, body }) => {
      const of = { ref: params.id, version: params.n, ...body, view: view(c) }
      const input = { ...of, revision: revisionOf(c, undefined) }
      return tagged(
        await write(c, 'submit_template', async (tx) =>
          answered(await submitDraft(c.var.ctx, c.var.caller, input, tx), 200, view(c)),
        ),
      )
    },
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/{id}/versions/{n}/withdraw',
      summary: 'Take a version out of review, back to a draft',
      tag,
      roles: BUILDERS,
      params: byVersion,
      body: templateNote,
      bodyOptional: true,
      idempotent: true,
      answers: { 200: templateVersion },
      faults: ['wrong_state'],
    },
    (c, { params, body }) =>
      write(c, 'withdraw_template', async (tx) => {
        const input = { ref: params.id, version: params.n, ...body }
        return answered(await withdrawDraft(c.var.ctx, c.var.caller, input, tx), 200, view(c))
      }),
  )
}

const mountReview: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/{id}/versions/{n}/review',
      summary: 'Approve, which publishes, or send back. Not by anybody who edited the draft',
      tag,
      roles: REVIEWERS,
      params: byVersion,
      body: templateReview,
      idempotent: true,
      answers: { 200: templateReviewed },
      faults: [...STALE, 'reviewer_is_author'],
    },
    (c, { params, body }) =>
      write(c, 'review_template', async (tx) => {
        const of = { ref: params.id, version: params.n, ...body, view: view(c) }
        const input = { ...of, revision: revisionOf(c, body.revision) }
        const reviewed: Result<Reviewed> = await reviewVersion(c.var.ctx, c.var.caller, input, tx)
        return answered(reviewed, 200, (done) => ({
          ...versionView(c, done),
          ...(done.widens === undefined ? {} : { widens: done.widens }),
        }))
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/templates/{id}/versions/{n}/retire',
      summary: 'Offer a published version no more. Who adopted it keeps it until they move',
      tag,
      roles: REVIEWERS,
      params: byVersion,
      body: templateNote,
      bodyOptional: true,
      idempotent: true,
      answers: { 200: templateVersion },
      faults: ['wrong_state'],
    },
    (c, { params, body }) =>
      write(c, 'retire_template', async (tx) => {
        const input = { ref: params.id, version: params.n, ...body }
        return answered(await retireVersion(c.var.ctx, c.var.caller, input, tx), 200, view(c))
      }),
  )
  endpoint(
    api,
    {
      method: 'put',
      path: '/templates/{id}/versions/{n}/sponsor',
      summary: 'Name who answers for a published version from now on',
      tag,
      roles: STUDIO,
      params: byVersion,
      body: sponsorChange,
      idempotent: true,
      answers: { 200: templateVersion },
      faults: ['wrong_state', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'change_sponsor', async (tx) => {
        const input = { ref: params.id, version: params.n, ...body }
        return answered(await changeSponsor(c.var.ctx, c.var.caller, input, tx), 200, view(c))
      }),
  )
}

export const mountStudio: Mount = (api) => {
  mountList(api)
  mountDrafts(api)
  mountMoves(api)
  mountReview(api)
}
