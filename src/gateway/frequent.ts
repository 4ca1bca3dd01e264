/**
 * A bounded map that keeps what is asked for often (TinyLFU): newcomers pass through a small window, and enter the main part
 * only if they are asked for more often than what would have to go. So a stream of paths that are each asked for once
 * cannot flush the few that carry the traffic. `get` counts.
 */
export type Frequent<V> = {
  readonly get: (key: string) => V | undefined
  readonly set: (key: string, value: V) => void
  readonly delete: (key: string) => void
  readonly clear: () => void
  readonly size: () => number
}

const ROWS = 4
const COUNT_MAX = 15
const SEEDS = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f] as const

function hash(key: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < key.length; i++) h = Math.imul(h ^ key.charCodeAt(i), 0x01000193)
  return h >>> 0
}

/** How often a key was seen lately, never too low for what was not aged: a count-min sketch that halves itself. */
function sketch(entries: number) {
  const width = 2 ** Math.ceil(Math.log2(Math.max(64, entries * 4)))
  const counts = new Uint8Array(width * ROWS)
  const ageAfter = entries * 10
  let seen = 0
  const at = (h: number, row: number): number => {
    const mixed = Math.imul(h ^ (h >>> 15), SEEDS[row] ?? 1)
    return row * width + ((mixed ^ (mixed >>> 13)) & (width - 1))
  }
  return {
    add: (key: string): void => {
      const h = hash(key)
      for (let row = 0; row < ROWS; row++) {
        const i = at(h, row)
        const count = counts[i] ?? 0
        if (count < COUNT_MAX) counts[i] = count + 1
      }
      if (++seen < ageAfter) return
      seen >>>= 1
      for (let i = 0; i < counts.length; i++) counts[i] = (counts[i] ?? 0) >>> 1
    },
    of: (key: string): number => {
      const h = hash(key)
      let least = COUNT_MAX
      for (let row = 0; row < ROWS; row++) least = Math.min(least, counts[at(h, row)] ?? 0)
      return least
    },
  }
}

export function createFrequent<V>(most: number): Frequent<V> {
  const windowMost = Math.max(1, Math.floor(most / 100))
  const mainMost = Math.max(1, most - windowMost)
  // A Map keeps its order: the first is the one used least recently.
  const window = new Map<string, V>()
  const main = new Map<string, V>()
  const often = sketch(most)
  const touch = (map: Map<string, V>, key: string, value: V): V => {
    map.delete(key)
    map.set(key, value)
    return value
  }
  const leaveWindow = (): void => {
    const [first] = window
    if (first === undefined) return
    const [key, value] = first
    window.delete(key)
    if (main.size < mainMost) {
      main.set(key, value)
      return
    }
    const victim = main.keys().next().value
    if (victim === undefined || often.of(key) <= often.of(victim)) return
    main.delete(victim)
    main.set(key, value)
  }
  return {
    get: (key) => {
      often.add(key)
      const kept = main.get(key)
      if (kept !== undefined) return touch(main, key, kept)
      const recent = window.get(key)
      return recent === undefined ? undefined : touch(window, key, recent)
    },
    set: (key, value) => {
      if (main.has(key)) touch(main, key, value)
      else {
        touch(window, key, value)
        if (window.size > windowMost) leaveWindow()
      }
    },
    delete: (key) => {
      window.delete(key)
      main.delete(key)
    },
    clear: () => {
      window.clear()
      main.clear()
    },
    size: () => window.size + main.size,
  }
}
