/** What an endpoint asks for (SPEC section 9). */
export const ENDPOINT_ACCESS = ['OPEN', 'AUTHENTICATED', 'ACCESS_CONTROLLED'] as const
export type EndpointAccess = (typeof ENDPOINT_ACCESS)[number]

export type EndpointRow = {
  readonly method: string
  /** `/accounts/{id}`: `{name}` stands for exactly one segment that is not empty. */
  readonly pattern: string
  readonly access: EndpointAccess
  /** Any one of them is enough. */
  readonly permissions: readonly string[]
}

type Node<T> = {
  readonly exact: Map<string, Node<T>>
  any: Node<T> | null
  readonly byMethod: Map<string, T>
}

const node = <T>(): Node<T> => ({ exact: new Map(), any: null, byMethod: new Map() })

export const segmentsOf = (pattern: string): readonly string[] =>
  pattern === '/' ? [] : pattern.slice(1).split('/')

const isWild = (segment: string): boolean => segment.startsWith('{')

/**
 * The endpoints of one service by the segments of their patterns. Of the patterns that match a path and have its method,
 * the one wins whose first segment that differs is exact. A node is visited at most once a search, so no path is slow.
 */
export type Trie<T> = {
  readonly find: (method: string, segments: readonly string[]) => T | null
}

export function trieOf<T>(
  entries: readonly { readonly method: string; readonly pattern: string; readonly value: T }[],
): Trie<T> {
  const root = node<T>()
  for (const { method, pattern, value } of entries) {
    let at = root
    for (const segment of segmentsOf(pattern)) {
      if (isWild(segment)) {
        at.any ??= node()
        at = at.any
        continue
      }
      const next = at.exact.get(segment) ?? node<T>()
      at.exact.set(segment, next)
      at = next
    }
    at.byMethod.set(method, value)
  }
  const search = (at: Node<T>, method: string, path: readonly string[], i: number): T | null => {
    const segment = path[i]
    if (segment === undefined) return at.byMethod.get(method) ?? null
    const exact = at.exact.get(segment)
    const found = exact === undefined ? null : search(exact, method, path, i + 1)
    if (found !== null || at.any === null || segment === '') return found
    return search(at.any, method, path, i + 1)
  }
  return { find: (method, segments) => search(root, method, segments, 0) }
}
