import { z } from 'zod'
import { id } from '../../../schema/people.ts'
import { type After, FIRST, type Page } from '../../db/directory.ts'
import type { Tx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import type { PeopleContext, StaffRole } from './endpoint.ts'
import { byTimeAndId, cursor, limit, page } from './page.ts'
import { read, type Written, write } from './write.ts'

/** What the routes of administration share. Auditors read all of it; org admins change it. */
export const READERS: readonly StaffRole[] = ['org_admin', 'auditor']
export const WRITERS: readonly StaffRole[] = ['org_admin']

export const byId = z.strictObject({ id })
export const paged = { limit, cursor: cursor(byTimeAndId) }

type Listed = { readonly id: string; readonly createdAt: number }
type Query = { readonly limit: number; readonly cursor?: readonly [number, string] | undefined }

/** A list, newest first. `select` is handed one row more than is shown, to know whether there is more. */
export const list = <Row extends Listed>(
  c: PeopleContext,
  label: string,
  query: Query,
  how: {
    readonly select: (tx: Tx, of: Page) => Promise<readonly Row[]>
    readonly view: (row: Row) => object
  },
): Promise<Response> =>
  read(c, label, async (tx) => {
    const after: After = query.cursor ?? FIRST
    const rows = await how.select(tx, {
      tenantId: c.var.tenant.id,
      after,
      limit: query.limit + 1,
    })
    return ok(pageOf(rows, query.limit, how.view))
  })

/** A page of rows, of which one more than is shown was read. */
export const pageOf = <Row extends Listed>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => object,
) => page(rows, { limit, item: view, key: (row) => [Math.round(row.createdAt * 1000), row.id] })

/** One thing of the tenant's, or 404. */
export const one = <Row>(
  c: PeopleContext,
  label: string,
  how: {
    readonly select: (tx: Tx) => Promise<Row | null | undefined>
    readonly view: (row: Row) => object
  },
): Promise<Response> =>
  read(c, label, async (tx) => {
    const row = await how.select(tx)
    return row === null || row === undefined ? fail('not_found') : ok(how.view(row))
  })

export const answered = <Row>(
  result: Result<Row>,
  status: 200 | 201,
  view: (row: Row) => object,
): Result<Written> => (result.ok ? ok({ status, body: view(result.value) }) : result)

export const gone = (result: Result<true>): Result<Written> =>
  result.ok ? ok({ status: 204 }) : result

/**
 * A write whose answer carries a secret. The secret is added after the commit, so that it is in no stored answer: a repeat
 * with the same Idempotency-Key is answered without it. `member` is its name in the answer.
 */
export async function writeWithSecret(
  c: PeopleContext,
  label: string,
  body: (
    tx: Tx,
  ) => Promise<Result<{ readonly written: Written; readonly secret?: string | undefined }>>,
  member: 'client_secret' | 'secret' = 'client_secret',
): Promise<Response> {
  let secret: string | undefined
  const response = await write(c, label, async (tx) => {
    const made = await body(tx)
    if (!made.ok) return made
    secret = made.value.secret
    return ok(made.value.written)
  })
  if (secret === undefined || !response.ok) return response
  const answer = z.looseObject({}).parse(await response.json())
  return new Response(JSON.stringify({ ...answer, [member]: secret }), {
    status: response.status,
    headers: response.headers,
  })
}
