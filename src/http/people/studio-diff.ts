import { z } from 'zod'
import { templateReach, templateReplay, templateVersionDiff } from '../../../schema/studio.ts'
import { type Reached, type ReachMember, reachOf } from '../../core/reach.ts'
import { diffTerms } from '../../core/terms.ts'
import { catalogEntries } from '../../db/catalog.ts'
import { diffView, ratedView } from '../../db/diff-view.ts'
import type { Buildable } from '../../db/studio.ts'
import type { Child } from '../../db/tree.ts'
import { fail, ok } from '../../fault.ts'
import { templatesBelow } from '../../flows/admin/check-template.ts'
import { lastPublished, NO_TERMS } from '../../flows/admin/review-template.ts'
import { replayRequests } from '../../flows/replay-requests.ts'
import { endpoint, type Mount } from './endpoint.ts'
import {
  byVersion,
  days,
  number,
  ownVersion,
  placeView,
  replayView,
  STAFF,
  seenVersion,
} from './studio-views.ts'
import { read } from './write.ts'

/** What a review looks at: the diff, and what the whole tree of templates can reach (SPEC section 3). */
const tag = 'templates'

/** The pinned versions below, each once. */
function membersBelow(
  children: readonly Child[],
  known: ReadonlyMap<string, readonly Buildable[]>,
  found = new Map<string, ReachMember>(),
): ReadonlyMap<string, ReachMember> {
  for (const child of children)
    for (const one of known.get(child.template) ?? []) {
      const name = `${one.template}@${one.version}`
      if (one.version !== (child.version ?? one.version) || found.has(name)) continue
      found.set(name, { template: name, ceiling: one.ceiling, sensitive: one.sensitive })
      membersBelow(one.children, known, found)
    }
  return found
}

const reachedView = (one: Reached) => ({
  ...placeView(one.item),
  sensitive: one.sensitive,
  by: one.by,
})

const mountDiff: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates/{id}/versions/{n}/diff',
      summary: 'What a version changes, each item with risk, sensitivity and enforcement point',
      tag,
      roles: STAFF,
      params: byVersion,
      query: z.strictObject({
        against: number.optional().meta({ description: 'By default the last published version' }),
      }),
      answers: { 200: templateVersionDiff },
    },
    (c, { params, query }) =>
      read(c, 'diff_template', async (tx) => {
        const found = await seenVersion(c, tx, params)
        if (!found.ok) return found
        const { template, version, versions } = found.value
        const from =
          query.against === undefined
            ? lastPublished(versions, version.version)
            : versions.find((one) => one.version === query.against)
        if (query.against !== undefined && from === undefined) return fail('not_found')
        const diff = diffTerms(from ?? { ...NO_TERMS, limits: version.limits }, version)
        return ok({
          template: template.name,
          version: version.version,
          ...(from === undefined ? {} : { against: from.version }),
          diff: await diffView(tx, c.var.tenant.id, diff),
        })
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates/{id}/versions/{n}/reach',
      summary: 'All that a version and its subagents can ask for, and what can carry it out',
      tag,
      roles: STAFF,
      params: byVersion,
      answers: { 200: templateReach },
    },
    (c, { params }) =>
      read(c, 'reach_of_template', async (tx) => {
        const found = await seenVersion(c, tx, params)
        if (!found.ok) return found
        const { template, version } = found.value
        const below = await templatesBelow(tx, c.var.tenant.id, version.children)
        const name = `${template.name}@${version.version}`
        const { ceiling, sensitive, children } = version
        const members = [
          { template: name, ceiling, sensitive },
          ...membersBelow(children, below).values(),
        ]
        const ids = members.flatMap((one) => one.ceiling.map((item) => item.permission))
        const catalog = await catalogEntries(tx, [...new Set(ids)])
        const reach = reachOf(members, catalog)
        return ok({
          template: template.name,
          version: version.version,
          members: members.map((one) => one.template),
          items: reach.items.map((one) => ({
            ...reachedView(one),
            ...ratedView(one.item.permission, catalog),
          })),
          pairs: reach.pairs.map((pair) => ({
            reads: reachedView(pair.reads),
            sends: reachedView(pair.sends),
          })),
        })
      }),
  )
}

const mountReplay: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/templates/{id}/versions/{n}/replay',
      summary: 'Recorded requests of this template, decided again under this version',
      tag,
      roles: STAFF,
      params: byVersion,
      query: z.strictObject({ days }),
      answers: { 200: templateReplay },
    },
    (c, { params, query }) =>
      read(c, 'replay_template', async (tx) => {
        const found = await ownVersion(c, tx, params)
        if (!found.ok) return found
        const { template, version } = found.value
        const done = await replayRequests(c.var.ctx, tx, {
          tenantId: c.var.tenant.id,
          onlyOwn: false,
          templateId: template.id,
          terms: version,
          days: query.days,
        })
        return ok({
          template: template.name,
          version: version.version,
          ...replayView(done, query),
          others: done.others.map(({ permission, now, count }) => ({
            permission,
            outcome: now.outcome,
            reason: now.reason,
            count,
          })),
        })
      }),
  )

export const mountStudioDiff: Mount = (api) => {
  mountDiff(api)
  mountReplay(api)
}
