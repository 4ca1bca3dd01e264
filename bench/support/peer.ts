/** The child's side of `startPeer`: one message when ready, then one answer for each question. */
export function serve(
  ready: { readonly port: number; readonly [key: string]: unknown },
  answer?: (message: Record<string, unknown>) => Promise<object>,
): void {
  const say = (message: object) => process.send?.(message)
  process.on('message', (message: Record<string, unknown>) => {
    const answered = answer?.(message) ?? Promise.reject(new Error('asked nothing of'))
    answered.then(say, (error: unknown) => say({ failed: String(error) }))
  })
  process.on('SIGTERM', () => process.exit(0))
  // The benchmark is gone: so is the reason to run.
  process.on('disconnect', () => process.exit(0))
  say(ready)
}

/** Runs `count` jobs, at most `width` at once, and says how many seconds that took. */
export async function timed(
  count: number,
  width: number,
  job: (i: number) => Promise<unknown>,
): Promise<number> {
  let next = 0
  const worker = async () => {
    while (next < count) await job(next++)
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker))
  return (performance.now() - started) / 1000
}
