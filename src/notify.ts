import type { Bus, Notify, OpenBus } from './ports.ts'

/** Kicks are sent apart from transactions, at most this often, and one at a time. */
const COALESCE_MILLIS = 5

/** Says that the bus is away when it begins and when it is over, not each time in between. */
function outage(note: (what: string, more: object) => void) {
  let away = false
  return {
    failed: (error: unknown): void => {
      if (!away) note('the bus is away: other instances notice changes by looking', { err: error })
      away = true
    },
    worked: (): void => {
      if (away) note('the bus works again', {})
      away = false
    },
  }
}

/**
 * Wakes those who wait: here at once, on other instances through the bus. A kick says nothing; the woken look for
 * themselves, and look now and then anyway, since a kick can be lost. Whatever becomes of the bus, `kick` returns at once,
 * and at most one message is on its way: kicks that come meanwhile are the next one.
 *
 * `open` null: there is no other instance. `note` is told once when the bus goes away and once when it is back.
 */
export async function createNotify(
  open: OpenBus | null,
  note: (what: string, more: object) => void,
): Promise<Notify & { readonly stop: () => Promise<void> }> {
  const subscribers = new Set<() => void>()
  const wakeAll = () => {
    for (const woken of [...subscribers]) woken()
  }
  const state = outage(note)
  let timer: NodeJS.Timeout | undefined
  let isSending = false
  let isNext = false
  let stopped = false
  const bus: Bus | null =
    open === null ? null : await open({ onKick: wakeAll, onError: state.failed })
  const send = async (to: Bus): Promise<void> => {
    timer = undefined
    isSending = true
    isNext = false
    try {
      await to.send()
      state.worked()
    } catch (error) {
      if (!stopped) state.failed(error)
    }
    isSending = false
    if (isNext) sendSoon()
  }
  const sendSoon = (): void => {
    if (bus === null || stopped) return
    if (isSending) isNext = true
    else timer ??= setTimeout(() => void send(bus), COALESCE_MILLIS)
  }
  return {
    kick: () => {
      queueMicrotask(wakeAll)
      sendSoon()
    },
    subscribe: (woken) => {
      subscribers.add(woken)
      return () => subscribers.delete(woken)
    },
    stop: async () => {
      stopped = true
      clearTimeout(timer)
      await bus?.close()
    },
  }
}
