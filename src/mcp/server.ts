import { randomUUID } from 'node:crypto'
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type Tool,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { TOOLS, type ToolName } from '../../schema/tools.ts'
import type { AgentCaller } from '../callers.ts'
import { fail, type Result } from '../fault.ts'
import { fieldErrors } from './arguments.ts'
import { faultResult, thrownResult, toolResult } from './reply.ts'
import type { IamTools, ToolExtra } from './tools.ts'

export const REVISIONS = ['2026-07-28', '2025-11-25', '2025-06-18']

const INSTRUCTIONS = `You hold nothing when you start. Access is borrowed from the user, for this session only.
1. If you do not know which permission a step needs, call iam.describe_permissions.
2. Ask with iam.request_access for the smallest set the next step needs, with a reason the user can understand.
3. When an item is pending, wait or go on with other work; the user answers in their own chat.
4. When the user said no, do not ask for it again. Go on without it and say what you left out.
5. Give back with iam.release_access what you no longer need, and call iam.end_session when you are done.`

/** The list depends on its spelling alone, so a client may keep it a while. */
const LIST_TTL_MS = 300_000

export type Spelling = 'dotted' | 'underscore'

/** What a served message needs beyond the message. */
export type Serving = { readonly caller: AgentCaller; readonly spelling: Spelling }

type Call = (caller: AgentCaller, args: unknown, extra: ToolExtra) => Promise<CallToolResult>

const names = Object.keys(TOOLS).filter((name): name is ToolName => Object.hasOwn(TOOLS, name))

/**
 * Both spellings of each tool. A Map, since a name from outside could be one that every object
 * inherits.
 */
const BY_NAME: ReadonlyMap<string, ToolName> = new Map(
  names.flatMap((name) => [[name, name] as const, [TOOLS[name].underscore, name] as const]),
)

function jsonSchema(schema: z.ZodType): Tool['inputSchema'] {
  // Without `$schema`: clients of the older line fail on any dialect but their own.
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return JSON.parse(JSON.stringify({ ...rest, type: 'object' }))
}

const listed = (spelling: Spelling): Tool[] =>
  names.map((name) => {
    const { underscore, title, description, input, output, annotations } = TOOLS[name]
    return {
      name: spelling === 'dotted' ? name : underscore,
      title,
      // A text that names a tool must name it as this client knows it.
      description: spelling === 'dotted' ? description : underscored(description),
      inputSchema: jsonSchema(input),
      outputSchema: jsonSchema(output),
      annotations: { title, ...annotations },
    }
  })

const underscored = (text: string): string => text.replaceAll(/\biam\.(?=[a-z])/g, 'iam_')

const LISTS: Readonly<Record<Spelling, Tool[]>> = {
  dotted: listed('dotted'),
  underscore: listed('underscore'),
}

/** Parse, run, reply: the same three steps for every tool. */
function callOf<Args>(
  input: z.ZodType<Args>,
  output: z.ZodType<Record<string, unknown>>,
  run: (caller: AgentCaller, args: Args, extra: ToolExtra) => Promise<Result<object>>,
): Call {
  return async (caller, args, extra) => {
    const read = input.safeParse(args)
    if (!read.success)
      return faultResult(
        fail('request_malformed', {
          detail: 'The arguments were not understood.',
          errors: fieldErrors(read.error, args),
        }).fault,
      )
    const result = await run(caller, read.data, extra)
    // The contract's own members and no others leave, so that nothing can slip out beside them
    // (I18).
    return result.ok ? toolResult(output.parse(result.value)) : faultResult(result.fault)
  }
}

/** One line a tool, so that the compiler holds each flow to its own contract. */
function callsOf(tools: IamTools): Readonly<Record<ToolName, Call>> {
  const describe = TOOLS['iam.describe_permissions']
  const explain = TOOLS['iam.explain']
  const request = TOOLS['iam.request_access']
  const mine = TOOLS['iam.my_access']
  const start = TOOLS['iam.start_subagent']
  const release = TOOLS['iam.release_access']
  const end = TOOLS['iam.end_session']
  return {
    'iam.describe_permissions': callOf(
      describe.input,
      describe.output,
      tools['iam.describe_permissions'],
    ),
    'iam.explain': callOf(explain.input, explain.output, tools['iam.explain']),
    'iam.request_access': callOf(request.input, request.output, tools['iam.request_access']),
    'iam.my_access': callOf(mine.input, mine.output, tools['iam.my_access']),
    'iam.start_subagent': callOf(start.input, start.output, tools['iam.start_subagent']),
    'iam.release_access': callOf(release.input, release.output, tools['iam.release_access']),
    'iam.end_session': callOf(end.input, end.output, tools['iam.end_session']),
  }
}

/**
 * Progress goes out in order and only upwards, as the protocol asks; `sent` settles when all of it
 * is on its way.
 */
function progressOf(ctx: ServerContext): { extra: ToolExtra; sent: () => Promise<void> } {
  const token = ctx.mcpReq._meta?.progressToken
  const { signal } = ctx.mcpReq
  if (token === undefined) return { extra: { signal }, sent: async () => {} }
  let last = -1
  let queue = Promise.resolve()
  const progress = (message: string, elapsedSeconds: number): void => {
    if (elapsedSeconds <= last) return
    last = elapsedSeconds
    const params = { progressToken: token, progress: elapsedSeconds, message }
    queue = queue
      .then(() => ctx.mcpReq.notify({ method: 'notifications/progress', params }))
      // The client has gone: the signal says so to whoever waits.
      .catch(() => {})
  }
  return { extra: { signal, progress }, sent: () => queue }
}

type Serves = {
  readonly tools: IamTools
  readonly version: string
  readonly onBug: (error: unknown, requestId: string) => void
}

/** Makes the server of one message. Stateless: it knows its caller and forgets them. */
export function serverFactory({ tools, version, onBug }: Serves): (serving: Serving) => Server {
  const calls = callsOf(tools)
  return ({ caller, spelling }) => {
    const server = new Server(
      { name: 'lend', title: 'Lend', version },
      {
        capabilities: { tools: {} },
        instructions: spelling === 'dotted' ? INSTRUCTIONS : underscored(INSTRUCTIONS),
        supportedProtocolVersions: REVISIONS,
        cacheHints: { 'tools/list': { ttlMs: LIST_TTL_MS, cacheScope: 'public' } },
      },
    )
    server.setRequestHandler('tools/list', () => ({ tools: LISTS[spelling] }))
    server.setRequestHandler('tools/call', async ({ params }, ctx) => {
      const name = BY_NAME.get(params.name)
      if (name === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Unknown tool')
      const { extra, sent } = progressOf(ctx)
      try {
        return await calls[name](caller, params.arguments ?? {}, extra)
      } catch (error) {
        const requestId = randomUUID()
        // Nobody is left to answer once the client is gone; giving up the wait is then no bug.
        if (!(extra.signal.aborted && isAbort(error))) onBug(error, requestId)
        return thrownResult(error, requestId)
      } finally {
        await sent()
      }
    })
    return server
  }
}

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === 'AbortError'
