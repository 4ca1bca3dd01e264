import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { agentAuth } from '@better-auth/agent-auth'
import { type BetterAuthPlugin, betterAuth } from 'better-auth'
import { getMigrations } from 'better-auth/db/migration'
import { toNodeHandler } from 'better-auth/node'
import { Pool } from 'pg'
import { serve } from '../support/peer.ts'

/**
 * The peer of T5: better-auth with its agent-auth plugin on Postgres, as its documentation sets it up. Its rate limits and
 * its limit of agents for a user are off, and its cookie cache is on, so that nothing but the work is measured.
 */
const CAPABILITY = 'view_dashboard'
const server = createServer((req, res) => void handle?.(req, res))
let handle: ReturnType<typeof toNodeHandler> | undefined
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
const port = typeof address === 'object' && address ? address.port : 0
const baseURL = `http://127.0.0.1:${port}`

// Its types are written for looser compiler options than ours, so the compiler has to be told that it fits.
const plugin = agentAuth({
  providerName: 'bench',
  maxAgentsPerUser: 0,
  freshSessionWindow: 0,
  approvalMethods: ['ciba'],
  resolveApprovalMethod: () => 'ciba',
  capabilities: [{ name: CAPABILITY, description: 'Open one dashboard' }],
  onExecute: async () => ({ opened: true }),
}) as unknown as BetterAuthPlugin

const options = {
  baseURL,
  secret: randomBytes(32).toString('base64url'),
  database: new Pool({ connectionString: process.env.DATABASE_URL, max: 20 }),
  emailAndPassword: { enabled: true },
  session: { cookieCache: { enabled: true, maxAge: 3600 } },
  rateLimit: { enabled: false },
  telemetry: { enabled: false },
  logger: { level: 'error' as const },
  plugins: [plugin],
}
const { runMigrations } = await getMigrations(options)
await runMigrations()
const auth = betterAuth(options)
handle = toNodeHandler(auth)
serve({ port, baseURL, capability: CAPABILITY })
