/** A job that runs again and again in this process, one run at a time. */
export type Job = {
  /** No run begins after this is called; resolves when the one under way is over. */
  readonly stop: () => Promise<void>
}

/** Kicks that come closer together than this are one. */
const GAP_MILLIS = 50

/**
 * Runs `run` every `everyMillis` and soon after each kick. What it throws goes to `onBug` and is tried again next time:
 * a job never ends the process, and never ends by itself.
 */
export function startPeriodic(of: {
  readonly run: () => Promise<unknown>
  readonly everyMillis: number
  readonly onBug: (error: unknown) => void
  readonly subscribe?: (woken: () => void) => () => void
  readonly gapMillis?: number
}): Job {
  const gapMillis = of.gapMillis ?? GAP_MILLIS
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | null = null
  let kicked = false

  const schedule = (millis: number): void => {
    if (stopped) return
    clearTimeout(timer)
    timer = setTimeout(begin, millis)
    timer.unref()
  }
  const once = async (): Promise<void> => {
    try {
      await of.run()
    } catch (error) {
      of.onBug(error)
    }
  }
  const begin = (): void => {
    kicked = false
    running = once().finally(() => {
      running = null
      schedule(kicked ? gapMillis : of.everyMillis)
    })
  }
  const unsubscribe = of.subscribe?.(() => {
    if (running === null && !kicked) schedule(gapMillis)
    kicked = true
  })
  schedule(0)
  return {
    stop: async () => {
      stopped = true
      clearTimeout(timer)
      unsubscribe?.()
      await running
    },
  }
}
