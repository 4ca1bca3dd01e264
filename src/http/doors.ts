/** What a request came for, as metrics name it: a closed list, so that no address can make a new one. */
export const DOORS = [
  'token',
  'introspect',
  'revoke',
  'metadata',
  'mcp',
  'tools',
  'people',
  'access',
  'enforce',
  'health',
  'other',
] as const
export type Door = (typeof DOORS)[number]

const BELOW_TENANT: readonly (readonly [string, Door])[] = [
  ['oauth/token', 'token'],
  ['oauth/introspect', 'introspect'],
  ['oauth/revoke', 'revoke'],
  ['oauth/jwks', 'metadata'],
  ['mcp', 'mcp'],
  ['tools/', 'tools'],
  ['api/', 'people'],
  ['access/', 'access'],
  ['enforce/', 'enforce'],
]
const TENANT = /^\/t\/[^/]+\/(.*)$/

/** The door of a path; never throws, whatever the path. */
export function doorOf(path: string): Door {
  const [, rest] = TENANT.exec(path) ?? []
  if (rest !== undefined)
    return (
      BELOW_TENANT.find(([start]) =>
        start.endsWith('/') ? rest.startsWith(start) : rest === start,
      )?.[1] ?? 'other'
    )
  if (path === '/livez' || path === '/readyz' || path === '/healthz') return 'health'
  return path.startsWith('/.well-known/') ? 'metadata' : 'other'
}
