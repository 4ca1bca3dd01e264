import { Hono } from 'hono'
import type { DataPart } from '../../enforce/index.ts'
import type { Guard } from './guard.ts'

type Row = Readonly<Record<string, unknown>>
/** Runs one statement on the service's own database, with `$1`, `$2`… for its values; null when one does not fit its column. */
export type Query = (
  text: string,
  params: readonly (string | number | boolean)[],
) => Promise<readonly Row[] | null>

const FIELDS = [
  'id',
  'name',
  'region',
  'owner',
  'segment',
  'renewal_date',
  'renewal_in_days',
  'arr',
  'phone',
] as const

/** One query a part: its rows, and of them its fields alone. What Lend says is a condition; what can be read is our own list. */
function partQuery(query: Query, { fields, sql }: DataPart): ReturnType<Query> {
  const columns = FIELDS.filter((field) => fields.includes(field)).map((field) => `, "${field}"`)
  const text = `select n as "#"${columns.join('')} from lend_demo.account where ${sql.text} order by n`
  return query(text, sql.params)
}

/** Parts are alternatives: a row that several show has the fields of each of them. */
async function rowsOf(query: Query, parts: readonly DataPart[]): ReturnType<Query> {
  const rows = new Map<number, Row>()
  for (const part of parts) {
    const found = await partQuery(query, part)
    if (found === null) return null
    for (const { '#': n, ...row } of found) rows.set(Number(n), { ...rows.get(Number(n)), ...row })
  }
  return [...rows.entries()].toSorted(([a], [b]) => a - b).map(([, row]) => row)
}

/**
 * The Accounts API. Calling it is one permission; which rows and fields it shows is another: Lend answers with a condition that
 * the service runs in its own database. Without a grant for rows there are none.
 */
export function accountsService(guard: Guard, query: Query): Hono {
  const app = new Hono()
  app.get('/accounts', async (c) => {
    const called = await guard.check(c, { permission: 'accounts:read' })
    if ('refused' in called) return called.refused
    const data = await guard.data(c, {
      entity: 'account',
      action: 'read',
      permission: 'accounts.rows:my_region',
    })
    if ('refused' in data) return data.refused
    if (!data.shown.allowed) {
      // Nothing granted is nothing shown, and no error: the call itself is allowed.
      const [ask] = data.shown.ask
      return c.json({ items: [], note: 'This session holds no rows.', ...(ask && { ask }) })
    }
    const { parts, masked } = data.shown
    // A mask is of the person, not of what was lent (I14); whoever reads sees that something is not shown.
    const hidden = Object.fromEntries(
      FIELDS.filter((f) => masked.includes(f) || masked.includes('*')).map((f) => [f, null]),
    )
    const rows = await rowsOf(query, parts)
    if (rows === null)
      return c.json(
        { error: 'narrow_unfit', message: 'A narrow compares a field with another type of value.' },
        422,
      )
    return c.json({ items: rows.map((row) => ({ ...row, ...hidden })), masked })
  })
  return app
}
