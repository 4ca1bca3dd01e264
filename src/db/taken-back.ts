import type { Db, Tx } from './tx.ts'

/**
 * What a commit takes back must be refused at once by whatever decides in this process out of memory: the answer to an end, a
 * loss or a freeze is held until those have heard of it. Other instances hear of it by the feed.
 */
type Hears = () => Promise<void>

/** An answer does not wait longer for them: the change is committed, and the feed's own look comes within half a second. */
const HEARD_MILLIS_MAX = 500

const taking = new WeakSet<Tx>()
const hearing = new WeakMap<Db, Set<Hears>>()

/** Says of a transaction that it takes something back. */
export const takesBack = (tx: Tx): void => void taking.add(tx)

/** `hears` reads what was taken back, anew, and never rejects. Returns how to stop. */
export function onTakenBack(db: Db, hears: Hears): () => void {
  const all = hearing.get(db) ?? new Set()
  hearing.set(db, all.add(hears))
  return () => void all.delete(hears)
}

/** After the commit of a transaction. */
export async function tellTakenBack(db: Db, tx: Tx): Promise<void> {
  const all = hearing.get(db.whole ?? db)
  if (all === undefined || all.size === 0 || !taking.has(tx)) return
  let late: NodeJS.Timeout | undefined
  const enough = new Promise((resolve) => {
    late = setTimeout(resolve, HEARD_MILLIS_MAX)
  })
  await Promise.race([Promise.all([...all].map((hears) => hears())), enough])
  clearTimeout(late)
}
