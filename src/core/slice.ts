import type { Access, EnforcedAt, Filter, Kind, Risk } from './vocabulary.ts'

/** What a service publishes of itself, under the names of its file (SPEC section 2). A bit is never part of it. */
export type SlicePermission = {
  readonly id: string
  readonly kind: Kind
  readonly title: string
  readonly description: string
  /** Words that people use for it and its title does not. */
  readonly keywords: string
  readonly access: Access
  readonly risk: Risk
  readonly sensitive: boolean
  readonly delegable: boolean
  readonly enforced_at: EnforcedAt
  readonly data?: {
    readonly entity: string
    readonly rows: Filter
    readonly fields: readonly string[]
  }
  readonly asset?: { readonly type: string }
  readonly tool?: { readonly tools: readonly string[]; readonly destination?: string }
}

/** Strictest last: what an endpoint asks for (SPEC section 9). */
export const PROTECTIONS = ['OPEN', 'AUTHENTICATED', 'ACCESS_CONTROLLED'] as const
export type Protection = (typeof PROTECTIONS)[number]

export type SliceEndpoint = {
  readonly method: string
  /** `/accounts/{id}`: `{name}` stands for exactly one segment that is not empty. */
  readonly pattern: string
  readonly access: Protection
  /** Any one of them is enough; none lets nobody in where access is controlled. */
  readonly permissions: readonly string[]
}

export type Slice = {
  readonly permissions: readonly SlicePermission[]
  readonly endpoints: readonly SliceEndpoint[]
}

/** Where each kind is enforced (SPEC section 9): a fact of the kind, which a file may leave out. */
export const ENFORCED_WHERE: Readonly<Record<Kind, EnforcedAt>> = {
  api: 'gateway',
  data: 'data',
  asset: 'asset',
  tool: 'tool_gateway',
}

const isWild = (segment: string | undefined): boolean => segment?.startsWith('{') === true
const segmentsOf = (pattern: string): readonly string[] => pattern.split('/')

type Addressed = Pick<SliceEndpoint, 'method' | 'pattern'>

/** Equal exactly when two endpoints match the same requests: what a segment is called does not count. */
export const endpointKey = ({ method, pattern }: Addressed): string =>
  `${method} ${segmentsOf(pattern)
    .map((segment) => (isWild(segment) ? '{}' : segment))
    .join('/')}`

/** Whether some request is matched by both. */
export function endpointsMeet(a: Addressed, b: Addressed): boolean {
  const [left, right] = [segmentsOf(a.pattern), segmentsOf(b.pattern)]
  return (
    a.method === b.method &&
    left.length === right.length &&
    left.every((segment, i) => {
      const other = right[i]
      // A wild segment stands for none that is empty.
      return (
        segment === other || (isWild(segment) && other !== '') || (isWild(other) && segment !== '')
      )
    })
  )
}

/** Whether `a` is asked for wherever both match: the first segment that differs is exact in it. */
export function goesBefore(a: Addressed, b: Addressed): boolean {
  const other = segmentsOf(b.pattern)
  const first = segmentsOf(a.pattern).findIndex((one, i) => isWild(one) !== isWild(other[i]))
  return first !== -1 && isWild(other[first])
}

/** Whether an endpoint lets somebody in whom another would not. */
export function isLooserEndpoint(a: SliceEndpoint, b: SliceEndpoint): boolean {
  const rank = (of: SliceEndpoint) => PROTECTIONS.indexOf(of.access)
  if (rank(a) !== rank(b)) return rank(a) < rank(b)
  return (
    a.access === 'ACCESS_CONTROLLED' && a.permissions.some((one) => !b.permissions.includes(one))
  )
}
