import type { Db } from './db/tx.ts'
import type { Notify } from './ports.ts'

const CHANNEL = 'lend'
/** NOTIFY takes a lock that all committers share, so kicks are sent apart from transactions and at most this often. */
const COALESCE_MILLIS = 5

/**
 * Wakes those who wait: here at once, on other instances through the database. A kick says nothing; the woken look for
 * themselves, and look now and then anyway, since a kick can be lost.
 */
export async function createNotify(
  db: Db,
  onBug: (error: unknown) => void,
): Promise<Notify & { readonly stop: () => Promise<void> }> {
  const subscribers = new Set<() => void>()
  const wakeAll = () => {
    for (const woken of [...subscribers]) woken()
  }
  let sending: NodeJS.Timeout | undefined
  let stopped = false
  // The embedded database has no other instance to tell.
  const unlisten = db.kind === 'server' ? await db.listen(CHANNEL, wakeAll) : async () => {}
  const send = () => {
    sending = undefined
    db.kick(CHANNEL).catch(onBug)
  }
  return {
    kick: () => {
      queueMicrotask(wakeAll)
      if (db.kind === 'server' && !stopped) sending ??= setTimeout(send, COALESCE_MILLIS)
    },
    subscribe: (woken) => {
      subscribers.add(woken)
      return () => subscribers.delete(woken)
    },
    stop: async () => {
      stopped = true
      clearTimeout(sending)
      await unlisten()
    },
  }
}
