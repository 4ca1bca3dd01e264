/**
 * RFC 8785 (JCS) for the JSON that Lend hashes and compares: sorted keys, no space, ECMAScript numbers. Only JSON
 * values are accepted; anything else is a bug. Core imports nothing, so this stands here; `test/core` compares it with
 * the `canonicalize` library over random values.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string')
    return JSON.stringify(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new Error('not a JSON number')
    return JSON.stringify(value)
  }
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value === 'object') {
    const members = Object.entries(value)
      .filter(([, v]) => v !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    return `{${members.map(([k, v]) => `${JSON.stringify(k)}:${canonicalJson(v)}`).join(',')}}`
  }
  throw new Error(`not a JSON value: ${typeof value}`)
}
