import { z } from 'zod'
import { permission, TASK_WORDS_LENGTH_MAX } from '../../../schema/catalog.ts'
import { listOf, prose } from '../../../schema/people.ts'
import { KINDS } from '../../core/vocabulary.ts'
import {
  type CatalogEntry,
  type CatalogMatch,
  catalogEntries,
  listCatalog,
  resourceHintOf,
  searchCatalog,
} from '../../db/catalog.ts'
import { ok } from '../../fault.ts'
import { one } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { cursor, limit, page } from './page.ts'
import { read } from './write.ts'

const tag = 'catalog'
const PERMISSION = /^[a-z0-9_.:-]{1,128}$/

const view = (p: CatalogEntry | CatalogMatch) => {
  const hint = resourceHintOf(p)
  return {
    id: p.id,
    title: p.title,
    description: p.description,
    unlocks: p.description,
    kind: p.kind,
    service: p.service,
    access: p.access,
    risk: p.risk,
    sensitive: p.sensitive,
    delegable: p.delegable,
    enforced_at: p.enforcedAt,
    ...(hint === null ? {} : { resource_hint: hint }),
    bit: p.bit,
    ...('matched' in p ? { matched: p.matched } : {}),
  }
}

const ofId = z.strictObject({ id: z.string().regex(PERMISSION) })

export const mountCatalog: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/catalog',
      summary: 'What can be lent: best for a task first, or all of it by id',
      tag,
      query: z.strictObject({
        q: prose(TASK_WORDS_LENGTH_MAX).optional().meta({ description: 'A task in words' }),
        kind: z.enum(KINDS).optional(),
        limit,
        cursor: cursor(z.tuple([z.string().regex(PERMISSION)])),
      }),
      answers: { 200: listOf(permission) },
    },
    (c, { query }) =>
      read(c, 'list_catalog', async (tx) => {
        const { q, kind } = query
        if (q !== undefined) {
          // Ranked: whatever is past the first page of a search is past use, so there is no next.
          const found = await searchCatalog(tx, { task: q, kind, limit: query.limit })
          return ok({ items: found.map(view) })
        }
        const [after = ''] = query.cursor ?? []
        const rows = await listCatalog(tx, { kind, after, limit: query.limit + 1 })
        return ok(page(rows, { limit: query.limit, item: view, key: (row) => [row.id] }))
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/catalog/{id}',
      summary: 'One permission',
      tag,
      params: ofId,
      answers: { 200: permission },
    },
    (c, { params }) =>
      one(c, 'read_permission', {
        select: async (tx) => (await catalogEntries(tx, [params.id])).get(params.id),
        view,
      }),
  )
}
