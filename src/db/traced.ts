import type { Trace } from '../ports.ts'
import type { Db, SqlValue, Tx } from './tx.ts'

const TEXT_LENGTH_MAX = 500

/** A statement as it is written here: its holes are shown as numbers, so no value of anybody's is in it. */
const textOf = (text: TemplateStringsArray): string =>
  text
    .map((part, i) => (i === 0 ? part : `$${i}${part}`))
    .join('')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, TEXT_LENGTH_MAX)

function tracedTx(tx: Tx, trace: Trace): Tx {
  return {
    sql: <T>(text: TemplateStringsArray, ...values: readonly SqlValue[]) => {
      const said = textOf(text)
      return trace.span(`sql ${said.split(' ', 1)[0] ?? ''}`, (span) => {
        span.set('db.system.name', 'postgresql')
        span.set('db.query.text', said)
        return tx.sql<T>(text, ...values)
      })
    },
    later: tx.later,
    committed: tx.committed,
    get orm() {
      return tx.orm
    },
  }
}

/** The same database, each transaction and each statement that is waited for a span. */
export const tracedDb = (db: Db, trace: Trace): Db => ({
  ...db,
  begin: (label, body, planned) =>
    trace.span(`tx ${label}`, () => db.begin(label, (tx) => body(tracedTx(tx, trace)), planned)),
  alone: tracedTx(db.alone, trace),
  aloneOnce: tracedTx(db.aloneOnce, trace),
})
