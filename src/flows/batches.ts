/**
 * Work that comes in at once and may share a transaction: what arrives while a batch is under way goes into the next one.
 * Nothing waits for company: what finds room starts at once, alone if need be.
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

/**
 * `run` answers for each item in the order given. If it throws, each item of the batch is run alone, so that one that
 * cannot be done takes no other with it. `atOnce` batches of a key run side by side, each of at most `most` items.
 */
export function createBatches<Key extends { readonly id: string }, In, Out>(
  run: (key: Key, items: readonly In[]) => Promise<readonly Out[]>,
  { most, atOnce }: { readonly most: number; readonly atOnce: number },
): Batches<Key, In, Out> {
  const queues = new Map<string, { waiting: Waiting<In, Out>[]; running: number }>()

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
    } catch {
      await Promise.all(batch.map((one) => alone(key, one)))
    }
  }

  const pump = (key: Key): void => {
    const queue = queues.get(key.id)
    if (queue === undefined) return
    while (queue.running < atOnce && queue.waiting.length > 0) {
      const batch = queue.waiting.splice(0, most)
      queue.running++
      void together(key, batch).finally(() => {
        queue.running--
        if (queue.running === 0 && queue.waiting.length === 0) queues.delete(key.id)
        else pump(key)
      })
    }
  }

  return (key, item) =>
    new Promise((resolve, reject) => {
      const queue = queues.get(key.id) ?? { waiting: [], running: 0 }
      queues.set(key.id, queue)
      queue.waiting.push({ item, resolve, reject })
      pump(key)
    })
}
