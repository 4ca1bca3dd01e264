import { type Db, type SqlValue, type Tx, withTx } from './tx.ts'

type Query = { readonly text: string; readonly values: readonly SqlValue[] }

/** What the rate limiter's library asks of a Postgres client. Its statements are its own; each is a transaction here. */
export function rateStore(db: Db) {
  return {
    query: ({ text, values }: Query): Promise<{ readonly rows: readonly object[] }> => {
      const parts = text.split(/\$\d+/)
      const holes = [...text.matchAll(/\$(\d+)/g)].map(([, n]) => values[Number(n) - 1] ?? null)
      return withTx(db, 'rate_count', async (tx) => ({
        rows: await tx.sql<object>(Object.assign(parts, { raw: parts }), ...holes),
      }))
    },
  }
}

/** Counts whose minute is over. Rows that another instance is deleting are left to it. */
export async function deleteOldRates(
  tx: Tx,
  of: { readonly before: number; readonly limit: number },
): Promise<number> {
  const gone = await tx.sql`
    delete from rate_count where ctid = any(array(
      select ctid from rate_count where expire < ${Math.floor(of.before * 1000)}
      order by expire limit ${of.limit} for update skip locked))
    returning 1`
  return gone.length
}
