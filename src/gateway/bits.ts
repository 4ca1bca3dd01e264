/** Permissions by their stable bit (SPEC section 2), 32 to a word. */
export type Bits = Uint32Array

const WORD = 32

export function bitsOf(indexes: readonly number[]): Bits {
  const bits = new Uint32Array(
    indexes.length === 0 ? 0 : Math.floor(Math.max(...indexes) / WORD) + 1,
  )
  for (const index of indexes) {
    const word = Math.floor(index / WORD)
    bits[word] = (bits[word] ?? 0) | (1 << (index % WORD))
  }
  return bits
}

/** Whether they have one in common. Nothing has anything in common with none. */
export function meet(a: Bits, b: Bits): boolean {
  const words = Math.min(a.length, b.length)
  for (let i = 0; i < words; i++) if (((a[i] ?? 0) & (b[i] ?? 0)) !== 0) return true
  return false
}
