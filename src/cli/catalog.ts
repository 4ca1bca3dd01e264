import { readFileSync } from 'node:fs'
import {
  findNodeAtLocation,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import { z } from 'zod'
import { readPermissionsFile } from '../../schema/permissions-file.ts'
import { tenantAddress } from './address.ts'
import { serviceAuthorization } from './catalog-credential.ts'
import { draftFromOpenApi, draftFromTools } from './catalog-draft.ts'
import { toolsAt } from './catalog-mcp.ts'
import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'

/** `lend catalog`: what a service's CI does with its permissions.json. Exit 0: good; 1: wrong; 2 (diff): something would wait. */

type Out = (line: string) => void
type Problem = { readonly pointer: string; readonly message: string }
type Source = { readonly name: string; readonly text: string; readonly root: Node | undefined }

const placeOf = (text: string, offset: number) => {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

const segments = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((one) => one.replaceAll('~1', '/').replaceAll('~0', '~'))

/** The node that a pointer leads to, or the nearest above it: what is missing is shown where it should be. */
function nodeAt(root: Node, pointer: string): Node {
  const path = segments(pointer)
  for (let length = path.length; length > 0; length--) {
    const at = path.slice(0, length).map((one) => (/^\d+$/.test(one) ? Number(one) : one))
    const node = findNodeAtLocation(root, at)
    if (node !== undefined) return node
  }
  return root
}

function shown({ name, text, root }: Source, problem: Problem): string {
  const { line, column } = placeOf(
    text,
    root === undefined ? 0 : nodeAt(root, problem.pointer).offset,
  )
  return `${name}:${line}:${column} ${problem.pointer || '/'} ${problem.message}`
}

/** Members that are named twice: most readers keep the last one only, and a reviewer may see the first. */
function twice(node: Node, pointer = ''): readonly { offset: number; pointer: string }[] {
  const members = node.type === 'object' ? (node.children ?? []) : []
  const seen = new Set<string>()
  return [
    ...members.flatMap((member) => {
      const [key, value] = member.children ?? []
      const name = String(key?.value)
      const here = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      const again = seen.has(name) ? [{ offset: member.offset, pointer: here }] : []
      seen.add(name)
      return [...again, ...(value === undefined ? [] : twice(value, here))]
    }),
    ...(node.type === 'array'
      ? (node.children ?? []).flatMap((one, i) => twice(one, `${pointer}/${i}`))
      : []),
  ]
}

function fileText(name: string): string {
  try {
    return readFileSync(name, 'utf8')
  } catch {
    throw new CliProblem(`${name} cannot be read.`)
  }
}

/** Prints what is wrong; null when anything is. */
function checkedFile(name: string, out: Out): (Source & { readonly value: unknown }) | null {
  const text = fileText(name)
  const errors: ParseError[] = []
  const root = parseTree(text, errors, { disallowComments: true, allowTrailingComma: false })
  const at = (offset: number, says: string) => {
    const { line, column } = placeOf(text, offset)
    out(`${name}:${line}:${column} ${says}`)
  }
  for (const error of errors) at(error.offset, `/ is not JSON: ${printParseErrorCode(error.error)}`)
  if (root === undefined || errors.length > 0) {
    if (errors.length === 0) at(0, '/ is empty')
    return null
  }
  const again = twice(root)
  for (const { offset, pointer } of again) at(offset, `${pointer} is named twice`)
  const value: unknown = JSON.parse(text)
  const source = { name, text, root, value }
  const read = readPermissionsFile(value)
  for (const problem of read.errors) out(shown(source, problem))
  return again.length + read.errors.length > 0 ? null : source
}

const change = z.object({
  of: z.string(),
  id: z.string(),
  what: z.string(),
  effect: z.enum(['tightens', 'loosens', 'neutral']),
  from: z.unknown().optional(),
  to: z.unknown().optional(),
  risk: z.string().optional(),
})
const answers = z.object({
  detail: z.string().optional(),
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  changes: z.array(change).optional(),
  base_version: z.number().optional(),
  version: z.number().optional(),
  published: z.boolean().optional(),
  waits: z.boolean().optional(),
  proposal: z.string().optional(),
  grants_ended: z.number().optional(),
})
type Answers = z.output<typeof answers>

const MARKS = { tightens: '-', loosens: '!', neutral: ' ' } as const

/** One line a change, as a pull request shows it: `!` waits for security, `-` takes something back at once. */
function changeLine(one: z.output<typeof change>): string {
  const risk = one.risk === undefined ? '' : ` (risk ${one.risk})`
  const json = (value: unknown) => JSON.stringify(value) ?? 'nothing'
  const values =
    one.from === undefined && one.to === undefined ? '' : `: ${json(one.from)} -> ${json(one.to)}`
  return `${MARKS[one.effect]} ${one.of} ${one.id}${risk} ${one.what} ${one.effect}${values}`
}

const needed = (given: Given, name: string): string => {
  const value = given.text(name)
  if (!value) throw new CliProblem(`Say --${name}.`)
  return value
}

async function ask(
  given: Given,
  env: NodeJS.ProcessEnv,
  of: { readonly method: 'PUT' | 'POST'; readonly path: string; readonly text: string },
): Promise<{ readonly status: number; readonly body: Answers }> {
  const service = needed(given, 'service')
  const clientId = needed(given, 'client-id')
  const issuer = tenantAddress(given, env)
  const authorization = await serviceAuthorization(env, { clientId, issuer })
  const at = `${issuer}/api/catalog/services/${encodeURIComponent(service)}${of.path}`
  const response = await fetch(at, {
    method: of.method,
    redirect: 'error',
    headers: { authorization, 'content-type': 'application/json' },
    body: of.text,
  })
  const read = answers.safeParse(await response.json().catch(() => null))
  if (!read.success)
    throw new CliProblem(
      `${at} answered ${response.status} and nothing that Lend says: is --url right?`,
    )
  return { status: response.status, body: read.data }
}

/** What the server refused, at its place in the file. */
function refused(source: Source, body: Answers, out: Out): number {
  const errors = body.errors ?? []
  for (const { path, message } of errors)
    if (path === '' || path.startsWith('/')) out(shown(source, { pointer: path, message }))
    else out(`${path} ${message}`)
  if (errors.length === 0) out(body.detail ?? 'The server refused it.')
  return 1
}

async function diff(
  given: Given,
  env: NodeJS.ProcessEnv,
  source: Source,
  out: Out,
): Promise<number> {
  const { text } = source
  const { status, body } = await ask(given, env, { method: 'POST', path: '/diff', text })
  if (status !== 200) return refused(source, body, out)
  const changes = body.changes ?? []
  out(`Against version ${body.base_version ?? 0}: ${changes.length} changes.`)
  for (const one of changes) out(changeLine(one))
  if (body.waits) out('What is marked ! waits for security; the rest takes effect when published.')
  return body.waits ? 2 : 0
}

async function publish(
  given: Given,
  env: NodeJS.ProcessEnv,
  source: Source,
  out: Out,
): Promise<number> {
  const base = given.text('base-version')
  const path = base === undefined ? '' : `?base_version=${encodeURIComponent(base)}`
  const { status, body } = await ask(given, env, { method: 'PUT', path, text: source.text })
  if (status !== 200 && status !== 201) return refused(source, body, out)
  for (const one of body.changes ?? []) out(changeLine(one))
  const version = body.version ?? 0
  const ended = body.grants_ended ? ` ${body.grants_ended} grants ended.` : ''
  out(body.published ? `Published as version ${version}.${ended}` : `Version ${version} stands.`)
  if (body.proposal !== undefined)
    out(`What is marked ! has not taken effect: it waits for security as ${body.proposal}.`)
  return 0
}

function parsedFile(name: string): unknown {
  try {
    return JSON.parse(fileText(name))
  } catch (error) {
    if (error instanceof CliProblem) throw error
    throw new CliProblem(`${name} is not JSON.`)
  }
}

const isAddress = (text: string): boolean => /^https?:/i.test(text)

/** The tools of `--mcp`: of a server that is asked now, or of an answer of its that was kept in a file. */
const toolsOf = (mcp: string, given: Given, env: NodeJS.ProcessEnv): Promise<unknown> | unknown =>
  isAddress(mcp)
    ? toolsAt(mcp, {
        privateNetwork: given.flag('private-network'),
        authorization: env.LEND_MCP_AUTHORIZATION,
      })
    : parsedFile(mcp)

async function draft(given: Given, env: NodeJS.ProcessEnv, out: Out): Promise<number> {
  const [openapi, mcp] = [given.text('openapi'), given.text('mcp')]
  const service = needed(given, 'service')
  if ((openapi === undefined) === (mcp === undefined))
    throw new CliProblem('Say what to import: --openapi FILE, --mcp FILE or --mcp URL.')
  const made =
    openapi === undefined
      ? draftFromTools(service, await toolsOf(mcp ?? '', given, env))
      : draftFromOpenApi(service, parsedFile(openapi))
  out(JSON.stringify(made, null, 2))
  return 0
}

/** The command. Answers with its exit code. */
export async function catalog(given: Given, env: NodeJS.ProcessEnv, out: Out): Promise<number> {
  const [action, file] = given.rest
  if (action === 'import') return draft(given, env, out)
  if (action !== 'check' && action !== 'diff' && action !== 'publish')
    throw new CliProblem('Say what to do: check, diff, publish or import.')
  if (file === undefined) throw new CliProblem('Say which file.')
  const source = checkedFile(file, out)
  if (source === null) return 1
  if (action === 'diff') return diff(given, env, source, out)
  if (action === 'publish') return publish(given, env, source, out)
  out(`${file} is a good permissions.json.`)
  return 0
}
