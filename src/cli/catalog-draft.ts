import { z } from 'zod'
import { CliProblem } from './run-file.ts'

/**
 * A first draft of permissions.json from what a service has written already, for a person to complete. What cannot be known is
 * strict: everything high risk and sensitive until somebody says otherwise.
 */
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const
const READS: ReadonlySet<string> = new Set(['get', 'head', 'options'])

const operation = z.object({ operationId: z.string().optional(), summary: z.string().optional() })
const openApi = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) })
const tool = z.object({
  name: z.string(),
  title: z.string().optional(),
  description: z.string().optional(),
  annotations: z.object({ readOnlyHint: z.boolean().optional() }).optional(),
})
const toolList = z.union([
  z.array(tool),
  z.object({ tools: z.array(tool) }).transform((of) => of.tools),
  z.object({ result: z.object({ tools: z.array(tool) }) }).transform((of) => of.result.tools),
])

const word = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '')

const line = (text: string | undefined, max: number, instead: string): string =>
  text
    ?.replaceAll(/\p{C}+|\s+/gu, ' ')
    .trim()
    .slice(0, max) || instead

const STRICT = { risk: 'high', sensitive: true } as const

/** `/users/{userId}` → `/users/{user_id}`: names of segments are lower case here. */
const patternOf = (path: string): string =>
  path.replaceAll(/\{([^}]*)\}/g, (_, name: string) => {
    const snake = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase()
    return `{${word(snake).replaceAll('-', '_') || 'id'}}`
  })

/** One permission to read and one to write, and every operation behind one of them. */
export function draftFromOpenApi(service: string, document: unknown): object {
  const read = openApi.safeParse(document)
  if (!read.success) throw new CliProblem('It is not an OpenAPI document: it has no paths.')
  const endpoints = Object.entries(read.data.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => operation.safeParse(item[method]).success).map((method) => ({
      method: method.toUpperCase(),
      pattern: patternOf(path),
      access: 'ACCESS_CONTROLLED',
      permissions: [`${word(service)}:${READS.has(method) ? 'read' : 'write'}`],
    })),
  )
  const used = new Set(endpoints.flatMap((one) => one.permissions))
  const permissions = (['read', 'write'] as const)
    .map((access) => ({
      id: `${word(service)}:${access}`,
      kind: 'api',
      title: `${service} API · ${access === 'read' ? 'Read' : 'Write'}`,
      description: `Say what ${access === 'read' ? 'reading' : 'writing'} through the ${service} API unlocks.`,
      ...{ access, ...STRICT },
    }))
    .filter((one) => used.has(one.id))
  return { permissions, endpoints }
}

/** One permission a tool. A server's own hints do not lower a risk: whoever wrote the tool wrote them. */
export function draftFromTools(service: string, list: unknown): object {
  const read = toolList.safeParse(list)
  if (!read.success) throw new CliProblem('It is not a list of tools.')
  const permissions = read.data.map(({ name, title, description, annotations }) => ({
    id: `${word(service)}.tools:${word(name) || 'call'}`,
    kind: 'tool',
    title: line(title, 100, name),
    description: line(description, 500, `Say what ${name} unlocks.`),
    access: annotations?.readOnlyHint === true ? 'read' : 'write',
    ...STRICT,
    tool: { tools: [`${service}/${name}`] },
  }))
  return { permissions, endpoints: [] }
}
