import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TOOLS, type ToolName } from '../../schema/tools.ts'
import { BURST } from './support/backend.ts'
import { type AnyClient, bodyOf, connect, REVISIONS, type Served, served } from './support/serve.ts'

const NAMES = Object.keys(TOOLS) as ToolName[]

/**
 * Arguments each tool accepts, to show that what is refused elsewhere is refused for its own fault.
 */
const GOOD: Record<ToolName, object> = {
  'iam.describe_permissions': { task: 'read accounts', kind: 'api', limit: 5 },
  'iam.explain': { permission: 'email:send' },
  'iam.request_access': { items: [{ permission: 'accounts:read' }], reason: 'To list renewals' },
  'iam.my_access': {},
  'iam.start_subagent': { template: 'email-drafter@1', read_only: true, task: 'Draft' },
  'iam.release_access': { items: [{ permission: 'none:held' }, { grant_id: 'grt_9' }] },
  'iam.end_session': { summary: 'Done.\nAll sent.' },
}

describe.each(REVISIONS)('the official client on %s', (revision) => {
  let here: Served
  let dotted: AnyClient
  let underscore: AnyClient
  beforeAll(async () => {
    here = await served()
    dotted = await connect(here, revision)
    underscore = await connect(here, revision, '?tool_names=underscore')
  })
  afterAll(async () => {
    await dotted.close()
    await underscore.close()
    await here.close()
  })

  it('negotiates that revision', () => {
    expect(dotted.revision()).toBe(revision)
  })

  it('is told how to work, in the names it knows', () => {
    expect(dotted.instructions()).toContain('iam.request_access')
    expect(underscore.instructions()).toContain('iam_request_access')
    expect(underscore.instructions()).not.toContain('iam.')
  })

  it('lists the seven tools under dotted names', async () => {
    const tools = await dotted.list()
    expect(tools.map((tool) => tool.name)).toEqual(NAMES)
    for (const tool of tools) {
      expect(tool.title, `${tool.name}`).toBeTruthy()
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false })
      expect(tool.inputSchema).not.toHaveProperty('$schema')
      expect(tool.outputSchema).toMatchObject({ type: 'object' })
      expect(tool.annotations).toMatchObject({ openWorldHint: false })
    }
  })

  it('lists them under underscore names where asked to, and nothing a strict client refuses', async () => {
    const tools = await underscore.list()
    expect(tools.map((tool) => tool.name)).toEqual(NAMES.map((name) => name.replace('.', '_')))
    for (const tool of tools) {
      expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,40}$/)
      expect(tool.description).not.toMatch(/iam\.[a-z]/)
    }
  })

  it.each(NAMES)('calls %s under both spellings on both lists', async (name) => {
    for (const client of [dotted, underscore])
      for (const spelling of [name, TOOLS[name].underscore]) {
        const calls = here.backend.seen.length
        const answer = await client.call(spelling, GOOD[name])
        expect(answer.isError ?? false, answer.content[0]?.text).toBe(false)
        expect(answer.content).toHaveLength(1)
        expect(bodyOf(answer)).toEqual(answer.structuredContent)
        expect(Object.keys(answer.structuredContent ?? {}).length).toBeGreaterThan(0)
        expect(here.backend.seen.slice(calls)).toMatchObject([
          { tool: name, args: GOOD[name], caller: { as: 'agent', sessionId: 'ses_1' } },
        ])
      }
  })

  it('answers an unknown tool with a protocol error, never a result', async () => {
    for (const name of ['iam.nothing', 'iam-request_access', '__proto__', 'constructor', ''])
      await expect(dotted.call(name), name).rejects.toMatchObject({ code: -32602 })
  })

  it('gives a refusal as a normal result that a model can act on', async () => {
    const answer = await dotted.call('iam.request_access', {
      items: [{ permission: 'billing:admin' }, { permission: 'no:such' }],
      reason: 'Because',
    })
    expect(answer.isError ?? false).toBe(false)
    expect(answer.structuredContent).toMatchObject({
      items: [
        { outcome: 'refused', reason: 'never_delegable', retry: 'never' },
        { outcome: 'refused', reason: 'unknown_permission', retry: 'never' },
      ],
    })
  })

  it('gives a limit and a freeze as tool errors with a code and when to come back', async () => {
    const ask = (permission: string) =>
      dotted.call('iam.request_access', { items: [{ permission }], reason: 'Because' })
    const limit = await ask('limit:hit')
    expect(limit.isError).toBe(true)
    expect(bodyOf(limit)).toEqual({
      error: 'limit_reached',
      code: 'limit_reached',
      message: 'A limit is reached.',
      limit: 'requests_per_minute',
      retry_after: 17,
    })
    const frozen = await ask('frozen:all')
    expect(frozen.isError).toBe(true)
    expect(bodyOf(frozen)).toMatchObject({ code: 'frozen', retry_after: 60 })
  })

  it('lets nothing out beside the contract (I18)', async () => {
    const answer = await dotted.call('iam.request_access', {
      items: [{ permission: 'leak:token' }],
      reason: 'Because',
    })
    expect(answer.structuredContent).toEqual({ items: [], token_refresh: false })
    expect(JSON.stringify(answer)).not.toContain('eyJ')
  })

  it.each(['crash:now', 'broken:shape'])(
    'says nothing of a bug (%s) but its id',
    async (permission) => {
      const before = here.bugs.length
      const answer = await dotted.call('iam.request_access', {
        items: [{ permission }],
        reason: 'Because',
      })
      expect(answer.isError).toBe(true)
      const bug = here.bugs[before]
      expect(here.bugs).toHaveLength(before + 1)
      expect(bodyOf(answer)).toMatchObject({ code: 'server_error', request_id: bug?.requestId })
      expect(JSON.stringify(answer)).not.toMatch(/secret_table|eyJ|\.ts:|node_modules|\bat \S+ \(/)
      expect(bug?.error).toBeInstanceOf(Error)
    },
  )
})

describe.each(REVISIONS)('a wait on %s', (revision) => {
  let here: Served
  let client: AnyClient
  beforeAll(async () => {
    here = await served({ keepAliveMs: 25 })
    client = await connect(here, revision)
  })
  afterAll(async () => {
    await client.close()
    await here.close()
  })
  const args = (permission: string) => ({
    items: [{ permission }],
    reason: 'To send the briefs',
    wait_seconds: 5,
  })

  it('reports progress, always upwards, and then the user’s answer', async () => {
    const progress: { progress: number; message?: string | undefined }[] = []
    const answer = await client.call('iam.request_access', args('email:send'), {
      onprogress: (one) => {
        progress.push(one)
        if (progress.length === 3) here.backend.answer('email:send', 'denied_by_user')
      },
    })
    expect(progress.length).toBeGreaterThanOrEqual(3)
    const steps = progress.map((one) => one.progress)
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b))
    expect(progress[0]?.message).toBe('Waiting for the user')
    expect(answer.structuredContent).toMatchObject({
      items: [{ outcome: 'refused', reason: 'denied_by_user' }],
    })
  })

  it('sends all of its progress first, and none that goes nowhere', async () => {
    const steps: number[] = []
    const answer = await client.call(
      'iam.request_access',
      { items: [{ permission: 'burst:now' }], reason: 'Because' },
      { onprogress: ({ progress }) => steps.push(progress) },
    )
    expect(answer.structuredContent).toEqual({ items: [], token_refresh: false })
    expect(steps).toEqual(BURST)
  })

  it('ends when the client goes, and cancels nothing but the wait', async () => {
    const second = await served()
    const waiting = await connect(second, revision)
    const stop = new AbortController()
    const call = waiting.call('iam.request_access', args('email:send'), { signal: stop.signal })
    const failed = expect(call).rejects.toThrow()
    await expect.poll(() => second.backend.waits.started).toBe(1)
    stop.abort()
    await failed
    await waiting.close()
    await expect.poll(() => second.backend.waits.aborted, { timeout: 2000 }).toBe(1)
    const after = await connect(second, revision)
    const pending = await after.call('iam.request_access', {
      ...args('email:send'),
      wait_seconds: 0,
    })
    expect(pending.structuredContent).toMatchObject({ items: [{ outcome: 'pending' }] })
    expect(second.bugs).toEqual([])
    await after.close()
    await second.close()
  })
})
