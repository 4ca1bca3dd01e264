import type { RelationalSchemaConfig } from 'drizzle-orm'
import { PgDatabase, PgDialect } from 'drizzle-orm/pg-core'
import type { Trace } from '../ports.ts'
import type { Db, Orm, SqlValue, Tx } from './tx.ts'

const TEXT_LENGTH_MAX = 500

/** A statement as it is written here: its holes are shown as numbers, so no value of anybody's is in it. */
const numbered = (text: TemplateStringsArray): string =>
  text.map((part, i) => (i === 0 ? part : `$${i}${part}`)).join('')

/** One statement by its text, which holds no value. */
function statement<T>(trace: Trace, text: string, run: () => Promise<T>): Promise<T> {
  const said = text.replaceAll(/\s+/g, ' ').trim().slice(0, TEXT_LENGTH_MAX)
  return trace.span(`sql ${said.split(' ', 1)[0] ?? ''}`, (span) => {
    span.set('db.system.name', 'postgresql')
    span.set('db.query.text', said)
    return run()
  })
}

/** The same Drizzle, which sends whatever it builds through what its session prepares: text apart from parameters. */
function tracedOrm(orm: Orm, trace: Trace): Orm {
  const { session, ...tables } = orm._
  const prepareQuery: typeof session.prepareQuery = (query, ...how) => {
    const prepared = session.prepareQuery(query, ...how)
    const execute = prepared.execute.bind(prepared)
    prepared.execute = (...given) => statement(trace, query.sql, () => execute(...given))
    return prepared
  }
  const traced: typeof session = Object.create(session, { prepareQuery: { value: prepareQuery } })
  const schema = tables as RelationalSchemaConfig<NonNullable<typeof tables.schema>>
  return new PgDatabase(new PgDialect(), traced, schema)
}

function tracing(trace: Trace) {
  // A connection keeps its Drizzle, and so its twin is kept too.
  const twins = new WeakMap<Orm, Orm>()
  const twinOf = (orm: Orm): Orm => {
    const known = twins.get(orm)
    if (known !== undefined) return known
    const made = tracedOrm(orm, trace)
    twins.set(orm, made)
    return made
  }
  return (tx: Tx): Tx => ({
    sql: <T>(text: TemplateStringsArray, ...values: readonly SqlValue[]) =>
      statement(trace, numbered(text), () => tx.sql<T>(text, ...values)),
    later: tx.later,
    committed: tx.committed,
    get orm() {
      return twinOf(tx.orm)
    },
  })
}

/** The same database, each transaction and each statement that is waited for a span. */
export function tracedDb(db: Db, trace: Trace): Db {
  const traced = tracing(trace)
  return {
    ...db,
    begin: (label, body, planned) =>
      trace.span(`tx ${label}`, () => db.begin(label, (tx) => body(traced(tx)), planned)),
    alone: traced(db.alone),
    aloneOnce: traced(db.aloneOnce),
  }
}
