import { expect, test } from 'vitest'
import { importsOf, typescriptIn } from './support/sources.ts'

/**
 * Which room may import from which. A room is the longest entry here that a file is in. `types` may be imported as types
 * only: they say what a thing is, and bring nothing of it along.
 */
type Room = {
  readonly rooms: readonly string[]
  readonly types?: readonly string[]
  readonly packages?: readonly string[]
}

const ROOMS: Readonly<Record<string, Room>> = {
  // Pure: no clock, no I/O, no library.
  'src/core': { rooms: [] },
  'src/callers.ts': { rooms: [], types: ['src/core'] },
  'src/fault.ts': { rooms: [] },
  'src/ports.ts': { rooms: [], types: ['src/db'] },
  'src/ids.ts': { rooms: ['src/ports.ts'], packages: ['node:crypto', 'uuid'] },
  'src/config.ts': { rooms: ['src/ports.ts'], packages: ['node:net', 'node:path'] },
  'src/notify.ts': { rooms: [], types: ['src/ports.ts'] },
  // Kicks between instances, and nothing else, go by these.
  'src/bus': {
    rooms: ['src/db'],
    types: ['src/config.ts', 'src/ports.ts'],
    packages: ['postgres', '@redis/client'],
  },
  'src/checkpoint-key.ts': {
    rooms: ['src/flows/checkpoint.ts'],
    types: ['src/config.ts'],
    packages: ['jose', 'node:fs', 'node:path'],
  },
  'src/vault.ts': {
    rooms: [],
    types: ['src/config.ts', 'src/ports.ts'],
    packages: ['node:crypto', 'node:fs', 'node:path'],
  },
  'src/rates.ts': {
    rooms: ['src/db', 'src/ports.ts'],
    packages: ['rate-limiter-flexible'],
  },
  'src/tracing.ts': {
    rooms: [],
    types: ['src/ports.ts'],
    packages: ['@opentelemetry'],
  },
  'src/body-bytes.ts': { rooms: [] },
  'src/database-clock.ts': {
    rooms: ['src/db', 'src/flows/periodic.ts'],
    types: ['src/ports.ts'],
  },
  'src/drain.ts': { rooms: [], packages: ['node:http', 'node:net'] },
  'src/log.ts': { rooms: [], packages: ['pino'] },

  schema: { rooms: ['src/core'], packages: ['zod'] },
  'schema/write.ts': { rooms: ['schema'], packages: ['node:fs', 'node:path'] },

  'src/db': {
    rooms: ['src/core', 'src/fault.ts'],
    // What a tenant's provider is, is said where it is used: in identity.
    types: ['src/callers.ts', 'src/ports.ts', 'src/identity'],
    packages: ['drizzle-orm', 'node:crypto'],
  },
  'src/db/tx.ts': {
    rooms: ['src/db'],
    packages: ['drizzle-orm', '@electric-sql/pglite', 'postgres'],
  },
  'src/db/seats.ts': { rooms: [], packages: ['postgres'] },
  'src/db/in-seat.ts': { rooms: ['src/db'], packages: ['postgres'] },
  'src/db/readers.ts': { rooms: [], packages: ['postgres'] },
  'src/db/line.ts': { rooms: [], packages: ['node:net'] },
  'src/db/open.ts': {
    rooms: ['src/db', 'src/config.ts'],
    packages: [
      'drizzle-orm',
      '@electric-sql/pglite',
      'postgres',
      'node:fs',
      'node:path',
      'node:url',
    ],
  },

  // Opens what is not whole yet.
  'src/db/restore.ts': {
    rooms: ['src/db'],
    packages: ['drizzle-orm', '@electric-sql/pglite', 'postgres', 'node:fs', 'node:path'],
  },

  'src/tokens': {
    rooms: ['src/core', 'src/db', 'src/fault.ts', 'src/ports.ts', 'schema'],
    // A client's row comes with the providers that its app may bring users from.
    types: ['src/callers.ts', 'src/identity'],
    packages: ['jose', 'node:buffer', 'node:crypto', 'node:util'],
  },
  'src/identity': {
    // A signature is checked as a session token's is.
    rooms: ['src/core', 'src/db', 'src/fault.ts', 'src/ports.ts', 'src/tokens'],
    types: ['src/callers.ts'],
    packages: [
      'jose',
      'oauth4webapi',
      'node:crypto',
      'node:util',
      'node:dns',
      'node:http',
      'node:https',
      'node:net',
    ],
  },

  'src/flows': {
    rooms: ['src/core', 'src/db', 'src/fault.ts', 'src/ports.ts'],
    types: ['src/callers.ts'],
    packages: ['node:crypto'],
  },
  // Registering a client checks its keys and hashes its secret as authenticating it does.
  'src/flows/admin': {
    rooms: ['src/flows', 'src/core', 'src/db', 'src/fault.ts', 'src/ports.ts', 'src/tokens'],
    types: ['src/callers.ts'],
  },
  // A checkpoint is a signature.
  'src/flows/checkpoint.ts': {
    rooms: ['src/flows', 'src/core', 'src/db', 'src/ports.ts'],
    packages: ['jose'],
  },
  'src/flows/verify-activity.ts': {
    rooms: ['src/flows', 'src/core', 'src/db', 'src/ports.ts'],
    types: ['src/callers.ts'],
    packages: ['jose'],
  },

  'src/mcp': {
    rooms: [
      'src/body-bytes.ts',
      'src/core',
      'src/db/shares.ts',
      'src/flows',
      'src/fault.ts',
      'src/ports.ts',
      'schema',
    ],
    types: ['src/callers.ts', 'src/db'],
    packages: ['@modelcontextprotocol/server', 'zod', 'node:crypto'],
  },
  // The official client speaks to servers of others, and the server's side to sessions.
  'src/tool-gateway': {
    rooms: [
      'src/core',
      'src/db/shares.ts',
      'src/fault.ts',
      'src/flows',
      'src/identity/fetch-guard.ts',
      'src/mcp',
      'src/ports.ts',
    ],
    types: ['src/callers.ts'],
    packages: ['@modelcontextprotocol/sdk', '@modelcontextprotocol/server', 'zod', 'node:crypto'],
  },
  'src/http': {
    rooms: [
      'src/body-bytes.ts',
      'src/core',
      'src/db',
      'src/fault.ts',
      'src/flows',
      'src/gateway',
      'src/identity',
      'src/mcp',
      'src/ports.ts',
      'src/tokens',
      'src/tool-gateway',
      'schema',
    ],
    types: ['src/callers.ts'],
    packages: [
      'hono',
      '@hono/node-server',
      '@hono/zod-openapi',
      'zod',
      'node:buffer',
      'node:crypto',
      'node:http',
      'node:net',
    ],
  },
  // The People API never sees a token's inside or the tools; it shares how bad arguments are named.
  'src/http/people': {
    rooms: [
      'src/body-bytes.ts',
      'src/http',
      'src/core',
      'src/db',
      'src/fault.ts',
      'src/flows',
      'src/mcp/arguments.ts',
      'src/ports.ts',
      'schema',
    ],
    types: ['src/callers.ts'],
    packages: ['hono', '@hono/zod-openapi', 'zod', 'node:crypto'],
  },

  // Pages for browsers: sign-in, and the files of the web app.
  'src/http/browser': {
    rooms: [
      'src/http',
      'src/core',
      'src/db',
      'src/fault.ts',
      'src/flows',
      'src/identity',
      'src/ports.ts',
      'schema',
    ],
    types: ['src/callers.ts'],
    packages: ['hono', 'zod', 'node:crypto', 'node:fs', 'node:path', 'node:url'],
  },

  // Decides for reverse proxies from memory. What it holds comes from db; what it found goes to flows.
  'src/gateway': {
    rooms: ['src/core', 'src/db', 'src/flows', 'src/ports.ts', 'src/tokens', 'schema'],
    types: ['src/callers.ts', 'src/identity'],
    packages: ['node:crypto'],
  },

  // What a resource server installs: it must stay small, and know nothing of the server.
  'src/enforce': { rooms: ['src/core'], packages: ['jose'] },

  // What operators see: counts only, no tenant, nobody's name.
  'src/ops': {
    rooms: ['src/db', 'src/flows', 'schema'],
    types: ['src/gateway', 'src/ports.ts'],
    packages: ['prom-client', 'node:crypto', 'node:http'],
  },

  // Looks at what an instance depends on, and changes nothing.
  'src/ops/doctor': {
    rooms: [
      'src/bus',
      'src/checkpoint-key.ts',
      'src/config.ts',
      'src/db',
      'src/flows',
      'src/identity',
      'src/ports.ts',
      'src/vault.ts',
    ],
    types: ['src/core'],
    packages: ['node:fs', 'node:path'],
  },

  'src/jobs.ts': {
    rooms: ['src/db', 'src/flows', 'src/tokens'],
    types: ['src/ports.ts'],
    packages: ['jose'],
  },
  'src/sealed-keys.ts': { rooms: ['src/flows'], types: ['src/ports.ts'] },
  'src/cli': {
    rooms: [
      'src/config.ts',
      'src/core',
      'src/db',
      'src/enforce',
      'src/fault.ts',
      'src/flows',
      'src/ids.ts',
      'src/ports.ts',
      'src/tokens',
      'src/vault.ts',
      'schema',
    ],
    packages: ['citty', 'zod', 'node:fs', 'node:os', 'node:path', 'node:readline', 'node:util'],
  },
  // Asks everything that an instance depends on.
  'src/cli/doctor.ts': {
    rooms: ['src/cli', 'src/config.ts', 'src/db', 'src/ids.ts', 'src/ops', 'src/vault.ts'],
    packages: ['node:util'],
  },
  'src/cli/new-checkpoint-key.ts': {
    rooms: ['src/checkpoint-key.ts', 'src/cli'],
    packages: ['node:fs', 'node:path'],
  },
  'src/cli/archive.ts': {
    rooms: ['src/cli', 'src/db'],
    packages: ['tar', 'zod', 'node:crypto', 'node:fs', 'node:path', 'node:stream'],
  },
  // Postgres's own programs copy a server's database.
  'src/cli/pg-programs.ts': { rooms: ['src/cli'], packages: ['node:child_process'] },
  'src/cli/restore.ts': {
    rooms: [
      'src/checkpoint-key.ts',
      'src/cli',
      'src/config.ts',
      'src/db',
      'src/flows',
      'src/ids.ts',
      'src/vault.ts',
    ],
    types: ['src/core', 'src/ports.ts'],
    packages: ['node:fs', 'node:path'],
  },
  // Says at which line of a file something is wrong.
  'src/cli/catalog.ts': {
    rooms: ['src/cli', 'schema'],
    packages: ['jsonc-parser', 'zod', 'node:fs'],
  },
  // Signs as a service's client does.
  'src/cli/catalog-credential.ts': {
    rooms: ['src/cli', 'src/tokens/client-keys.ts'],
    packages: ['jose', 'node:crypto', 'node:fs'],
  },
  // Asks an MCP server as the tool gateway would.
  'src/cli/catalog-mcp.ts': { rooms: ['src/cli', 'src/tool-gateway/upstream.ts'] },

  // An app that hosts an agent: a client of Lend like any other. It shares how a browser signs in, and nothing of the server.
  'src/app': {
    rooms: [
      'src/http/browser/cookies.ts',
      'src/http/browser/pages.ts',
      'src/http/browser/return-to.ts',
      'src/identity/code-flow.ts',
    ],
    packages: [
      '@ai-sdk',
      '@modelcontextprotocol/sdk',
      'ai',
      'hono',
      'oauth4webapi',
      'zod',
      'node:crypto',
      'node:fs',
      'node:path',
    ],
  },

  'src/demo': {
    rooms: [
      'src/app',
      'src/cli/run-file.ts',
      'src/core',
      'src/db',
      'src/flows/tool-credential.ts',
      'src/ids.ts',
      'src/ports.ts',
      'src/tokens',
    ],
    types: ['src/config.ts'],
    packages: ['hono', '@hono/node-server', 'zod', 'node:crypto', 'node:http'],
  },
  // Plays an identity provider that Lend has nothing to do with.
  'src/demo/idp': {
    rooms: ['src/demo'],
    types: ['src/core', 'src/ports.ts'],
    packages: ['oidc-provider', 'oauth4webapi', 'jose', 'hono', 'zod', 'node:crypto', 'node:http'],
  },
  // Plays services that protect themselves with what anybody can install.
  'src/demo/services': {
    rooms: ['src/enforce'],
    packages: ['@modelcontextprotocol/server', 'hono', 'zod', 'node:crypto'],
  },
  // Starts them, so it knows the demo's world.
  'src/demo/services/app.ts': {
    rooms: ['src/demo', 'src/demo/services', 'src/enforce', 'src/ports.ts'],
    packages: ['hono'],
  },
  // Plays a person and an agent, through public doors alone.
  'src/demo/journey': {
    rooms: [],
    packages: [
      '@modelcontextprotocol/sdk',
      'oauth4webapi',
      'zod',
      'node:child_process',
      'node:crypto',
      'node:fs',
      'node:net',
      'node:os',
      'node:path',
      'node:url',
      'node:util',
    ],
  },

  'src/main.ts': {
    rooms: [
      'src',
      'src/app',
      'src/bus',
      'src/cli/run-file.ts',
      'src/db',
      'src/demo',
      'src/gateway',
      'src/http',
      'src/identity',
      'src/ops',
      'src/tokens',
      'schema',
    ],
    types: ['src/core', 'src/flows'],
    packages: ['@hono/node-server', 'hono', 'node:events', 'node:http', 'node:path'],
  },
}

const isIn = (path: string, room: string): boolean => path === room || path.startsWith(`${room}/`)

/** A whole folder, one file of it, or `src` for the files that lie there themselves. */
const covers = (room: string, path: string): boolean =>
  room === 'src' ? /^src\/[^/]+\.ts$/.test(path) : isIn(path, room)

const roomOf = (path: string): string | undefined =>
  Object.keys(ROOMS)
    .filter((room) => isIn(path, room))
    .toSorted((a, b) => b.length - a.length)[0]

const PRODUCT = typescriptIn('src', 'schema')

test('every file is in a room', () => {
  expect(PRODUCT.filter((file) => roomOf(file) === undefined)).toEqual([])
})

test('every room has files', () => {
  const rooms = new Set(PRODUCT.map(roomOf))
  expect(Object.keys(ROOMS).filter((room) => !rooms.has(room))).toEqual([])
})

for (const [name, room] of Object.entries(ROOMS))
  test(`${name} imports only what it may`, () => {
    const wrong = PRODUCT.filter((file) => roomOf(file) === name)
      .flatMap(importsOf)
      .filter(({ of, typeOnly }) => {
        const local = of.startsWith('src/') || of.startsWith('schema/')
        if (!local) return !(room.packages ?? []).some((p) => isIn(of, p))
        if (isIn(of, name)) return false
        if (room.rooms.some((r) => covers(r, of))) return false
        return !(typeOnly && (room.types ?? []).some((r) => covers(r, of)))
      })
      .map(({ file, of, typeOnly }) => `${file} imports ${typeOnly ? 'types of ' : ''}${of}`)
    expect(wrong).toEqual([])
  })

test('the MCP libraries are known only where MCP is spoken', () => {
  const may = ['src/mcp', 'src/tool-gateway', 'src/demo/journey', 'src/demo/services', 'src/app']
  const wrong = PRODUCT.flatMap(importsOf)
    .filter(({ of }) => of.startsWith('@modelcontextprotocol/'))
    .filter(({ file }) => !may.some((room) => isIn(file, room)))
  expect(wrong).toEqual([])
})

test('the product never imports a test or the benchmark', () => {
  const wrong = PRODUCT.flatMap(importsOf).filter(
    ({ of }) => of.startsWith('test/') || of.startsWith('bench/'),
  )
  expect(wrong).toEqual([])
})

test('the model never imports the decision: it says the rule a second time', () => {
  const wrong = typescriptIn('test/model')
    .flatMap(importsOf)
    .filter(({ of }) => /^src\/core\/(decide|facts|held|item)\.ts$/.test(of))
  expect(wrong).toEqual([])
})

test('the tests’ own verification of chains does not import the product’s', () => {
  const wrong = importsOf('test/race/support/sound.ts').filter(({ of }) => of.startsWith('src/'))
  expect(wrong).toEqual([])
})

test('no file is left that nothing reaches', () => {
  const doors = [
    'src/main.ts',
    'src/cli/main.ts',
    'src/enforce/index.ts',
    'src/demo/journey/main.ts',
    'schema/write.ts',
  ]
  const reached = new Set<string>()
  const next = [...doors]
  for (let file = next.pop(); file !== undefined; file = next.pop()) {
    if (reached.has(file) || !PRODUCT.includes(file)) continue
    reached.add(file)
    next.push(...importsOf(file).map((one) => one.of))
  }
  expect(PRODUCT.filter((file) => !reached.has(file))).toEqual([])
})
