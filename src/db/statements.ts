import { sqlState } from './sql-error.ts'
import type { Orm, SqlValue, Tx } from './tx.ts'

/** What transactions on both databases are made of. */
export const noop = (): void => undefined

export type Run = <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => Promise<R[]>

const ABORTED = '25P02'

/** Notes the first statement that fails: it explains the ones after it, which only say that the transaction is aborted. */
export function watched(run: Run): { run: Run; explains: (error: unknown) => unknown } {
  let first: { error: unknown } | undefined
  return {
    run: <R>(text: TemplateStringsArray, values: readonly SqlValue[]) => {
      const sent = run<R>(text, values)
      sent.catch((error: unknown) => {
        first ??= { error }
      })
      return sent
    },
    explains: (error) =>
      first !== undefined && (error === undefined || sqlState(error) === ABORTED)
        ? first.error
        : error,
  }
}

/** Drizzle is made only where it is asked for: it costs more than most statements. */
export function txOn(of: {
  run: Run
  orm: () => Orm
  later: (sent: Promise<unknown>) => void
  committed: (then: () => void) => void
}): Tx {
  return {
    sql: (text, ...values) => of.run(text, values),
    later: (text, ...values) => {
      const sent = of.run(text, values)
      sent.catch(noop)
      of.later(sent)
    },
    committed: of.committed,
    get orm() {
      return of.orm()
    },
  }
}

export const notAlone = (): never => {
  throw new Error('a statement outside a transaction has no commit to wait for')
}
