/** Looks until there is something, for what another part of the server does in its own time. */
export async function until<T>(
  look: () => Promise<T | null | undefined | false>,
  what: string,
  seconds = 10,
): Promise<T> {
  const end = performance.now() + seconds * 1000
  for (;;) {
    const seen = await look()
    if (seen !== null && seen !== undefined && seen !== false) return seen
    if (performance.now() > end) throw new Error(`after ${seconds} s still not: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

export const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))
