import { isOutage } from '../fault.ts'
import type { Db } from './tx.ts'

/**
 * Work that comes in at once and may share a transaction, or a statement: what arrives while a batch is under way goes into
 * the next one. Nothing waits for company: what comes while nothing is under way starts at once, alone if need be.
 */
export type Batches<Key extends { readonly id: string }, In, Out> = (
  key: Key,
  item: In,
) => Promise<Out>

type Waiting<In, Out> = {
  readonly item: In
  readonly resolve: (out: Out) => void
  readonly reject: (error: unknown) => void
}

type Queue<In, Out> = {
  readonly waiting: Waiting<In, Out>[]
  running: number
  /** Set while something waits for a batch that may be held up. */
  overdue: NodeJS.Timeout | undefined
}

/** A batch that takes longer is held up by a lock, or the database is busy: what waits goes on beside it. */
const OVERDUE_MILLIS = 50

/**
 * `run` answers for each item in the order given. If it throws, each item of the batch is run alone, so that one that
 * cannot be done takes no other with it; but an outage is everyone's, and may have come after the commit. One batch of a key
 * is under way, of at most `most` items: many small ones side by side would cost more and be no sooner done. Only beside one
 * that is full or overdue another starts, `atOnce` at most.
 */
export function createBatches<Key extends { readonly id: string }, In, Out>(
  run: (key: Key, items: readonly In[]) => Promise<readonly Out[]>,
  { most, atOnce }: { readonly most: number; readonly atOnce: number },
): Batches<Key, In, Out> {
  const queues = new Map<string, Queue<In, Out>>()

  const alone = async (key: Key, one: Waiting<In, Out>): Promise<void> => {
    try {
      const [out] = await run(key, [one.item])
      one.resolve(out as Out)
    } catch (error) {
      one.reject(error)
    }
  }

  const together = async (key: Key, batch: readonly Waiting<In, Out>[]): Promise<void> => {
    if (batch.length === 1 && batch[0] !== undefined) return alone(key, batch[0])
    try {
      const outs = await run(
        key,
        batch.map((one) => one.item),
      )
      for (const [i, one] of batch.entries()) one.resolve(outs[i] as Out)
    } catch (error) {
      if (isOutage(error)) for (const one of batch) one.reject(error)
      else await Promise.all(batch.map((one) => alone(key, one)))
    }
  }

  const startNext = (key: Key, queue: Queue<In, Out>): void => {
    clearTimeout(queue.overdue)
    queue.overdue = undefined
    queue.running++
    void together(key, queue.waiting.splice(0, most)).finally(() => {
      queue.running--
      pump(key, queue)
    })
  }

  const pump = (key: Key, queue: Queue<In, Out>): void => {
    const { waiting } = queue
    while (waiting.length > 0 && (queue.running === 0 || waiting.length >= most)) {
      if (queue.running >= atOnce) return
      startNext(key, queue)
    }
    if (queue.running === 0) queues.delete(key.id)
    else if (waiting.length > 0 && queue.running < atOnce)
      queue.overdue ??= setTimeout(() => {
        startNext(key, queue)
        pump(key, queue)
      }, OVERDUE_MILLIS)
  }

  return (key, item) =>
    new Promise((resolve, reject) => {
      const queue = queues.get(key.id) ?? { waiting: [], running: 0, overdue: undefined }
      queues.set(key.id, queue)
      queue.waiting.push({ item, resolve, reject })
      pump(key, queue)
    })
}

/** Another of the same tree is in this batch: what was read for the first is no longer so for the second. */
export const LATER = 'later'

/** Asks again, in the next batch, as long as the answer is `LATER`. */
export async function inTurn<Out>(ask: () => Promise<Out | typeof LATER>): Promise<Out> {
  for (;;) {
    const answer = await ask()
    if (answer !== LATER) return answer
  }
}

/** Of trees read together, which stand in for one that is there already: those are `LATER`. */
export function isAgain(
  trees: readonly ({ readonly root: { readonly id: string } } | null)[],
): readonly boolean[] {
  const seen = new Set<string>()
  return trees.map((tree) => {
    if (tree === null) return false
    const known = seen.has(tree.root.id)
    seen.add(tree.root.id)
    return known
  })
}

type Limits = Parameters<typeof createBatches>[1]

/** As many as one transaction is worth. */
export const WRITES: Limits = { most: 32, atOnce: 3 }
/** As many as one statement is worth. */
const READS: Limits = { most: 64, atOnce: 4 }

/** `createBatches` with queues for each `on`: a context, or a database. */
export function shareWork<On extends object, Key extends { readonly id: string }, In, Out>(
  run: (on: On, key: Key, items: readonly In[]) => Promise<readonly Out[]>,
  limits: Limits,
): (on: On, key: Key, item: In) => Promise<Out> {
  const queues = new WeakMap<On, Batches<Key, In, Out>>()
  return (on, key, item) => {
    const queue = queues.get(on) ?? createBatches((of, items) => run(on, of, items), limits)
    queues.set(on, queue)
    return queue(key, item)
  }
}

/**
 * The same for reads. What each is told was read after they asked, never before: who asks while a read is under way is in the
 * next one.
 */
export function shareReads<Key extends { readonly id: string }, In, Out>(
  read: (db: Db, key: Key, items: readonly In[]) => Promise<readonly Out[]>,
): (db: Db, key: Key, item: In) => Promise<Out> {
  const shared = shareWork(read, READS)
  return (db, key, item) => shared(db.whole ?? db, key, item)
}

/** The same where all who ask for a key are told the same. */
export function shareRead<Key extends { readonly id: string }, Out>(
  read: (db: Db, key: Key) => Promise<Out>,
): (db: Db, key: Key) => Promise<Out> {
  const shared = shareReads(async (db: Db, key: Key, all: readonly null[]) => {
    const found = await read(db, key)
    return all.map(() => found)
  })
  return (db, key) => shared(db, key, null)
}
