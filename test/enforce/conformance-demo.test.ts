import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { conformance } from '../../src/cli/conformance.ts'
import { CONFORMANCE_ARGS } from '../../src/cli/conformance-args.ts'
import { strictly } from '../../src/cli/options.ts'
import { type LiveServer, serveLend } from '../support/live-server.ts'

/** `lend conformance` against the demo's services, with tokens that the real server has signed for something else. */
let lend: LiveServer
beforeAll(async () => {
  lend = await serveLend()
})
afterAll(async () => {
  await lend.close()
  expect(lend.bugs).toEqual([])
})

const ITEMS = {
  accounts: { permission: 'accounts:read' },
  dashboards: { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
  contracts: { permission: 'contracts.fields:pricing' },
} as const
type Service = keyof typeof ITEMS
const PATHS: Readonly<Record<Service, string>> = {
  accounts: '/accounts',
  dashboards: '/dashboards/q3-pipeline',
  contracts: '/contracts/ctr-emea-1/pricing',
}

async function holding(login: string, service: Service) {
  const started = await lend.start(login)
  await lend.lend(login, started.access_token, [ITEMS[service]])
  const tenant = login === 'gus' ? 'globex' : 'acme'
  const at = (resource?: string) =>
    lend.reissue(started.refresh_token, {
      tenant,
      ...(resource === undefined ? {} : { resource }),
    })
  return { ...started, token: async (resource?: string) => (await at(resource)).access_token }
}

/** Exit code, and what was printed. */
async function run(...args: readonly string[]) {
  let printed = ''
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += String(text)
    return true
  })
  try {
    const code = await conformance(strictly(args, CONFORMANCE_ARGS), {})
    return { code, printed }
  } finally {
    write.mockRestore()
  }
}

test.each<[Service]>([['accounts'], ['dashboards'], ['contracts']])(
  'the demo’s %s refuse every hostile token',
  async (service) => {
    const resource = lend.resource(service)
    const session = await holding('maya', service)
    const good = await session.token(resource)
    const narrowed = await holding('maya', service)
    const stale = await narrowed.token(resource)
    const mcp = await lend.mcp(await narrowed.token())
    await mcp.call('iam.release_access', { items: [ITEMS[service]] })
    const ended = await holding('maya', service)
    const dead = await ended.token(resource)
    await lend.oauth('revoke', { token: dead }, await lend.agent())
    const hostile: Readonly<Record<string, string>> = {
      'the control token': await session.token(),
      'another audience': await session.token(lend.resource('mail')),
      'sub is the user, another audience': await session.token(lend.resource('reports')),
      'the tool gateway’s audience': await session.token(`${lend.issuer()}/tools/mail/mcp`),
      'an ended session': dead,
      'a narrowed session': stale,
      'a person’s token': await lend.userToken('maya', 'app'),
      'an ID token': await lend.idToken('maya'),
      'the refresh token': session.refresh_token,
    }
    const { code, printed } = await run(
      ...['--url', `${resource}${PATHS[service]}`, '--token', good],
      ...Object.entries(hostile).flatMap(([name, token]) => ['--hostile', `${name}=${token}`]),
    )
    expect(printed.split('\n').filter((line) => /^(accepted|broke|unclear)/.test(line))).toEqual([])
    expect(printed).toContain(', 0 not refused.')
    expect(printed).toMatch(/ok +401 {2}given: an ended session/)
    for (const secret of [good, ...Object.values(hostile)]) expect(printed).not.toContain(secret)
    expect(code).toBe(0)
    await lend.endSessions('maya')
  },
)

test('another tenant’s good token is refused, and opens its own', async () => {
  const resource = lend.resource('accounts')
  const [ours, theirs] = [await holding('maya', 'accounts'), await holding('gus', 'accounts')]
  const url = `${resource}/accounts`
  const good = await ours.token(resource)
  const foreign = await theirs.token(resource)
  // The demo's services serve both customers, each with its own tokens: so it is another address that must refuse it.
  const { code } = await run('--url', url, '--token', foreign, '--issuer', lend.issuer('globex'))
  expect(code).toBe(0)
  expect((await run('--url', url, '--token', good)).code).toBe(0)
})

test('what cannot be tested is told apart from what is bad', async () => {
  const session = await holding('maya', 'accounts')
  const control = await session.token()
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  const url = `${lend.resource('accounts')}/accounts`
  expect((await run('--url', url, '--token', control)).code).toBe(2)
  expect((await run('--url', `${lend.publicUrl}/livez`, '--token', control)).code).toBe(2)
  expect((await run('--url', 'http://127.0.0.1:9/', '--token', control)).code).toBe(2)
  stderr.mockRestore()
  await expect(run('--url', url, '--token', 'x')).rejects.toThrow('not a signed token')
  await expect(run('--token', control)).rejects.toThrow('Say where')
})
