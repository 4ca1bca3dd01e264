import { createHash, timingSafeEqual } from 'node:crypto'
import { getConnInfo } from '@hono/node-server/conninfo'
import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { TenantId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { CannotSeal } from '../db/sealed.ts'
import { withTx } from '../db/tx.ts'
import { type Ctx, issuerOf, mcpUrlOf } from '../ports.ts'
import { rotateKeys, SIGNING_ALGS } from '../tokens/keys.ts'
import { demoFacts } from './facts.ts'
import { signIn } from './idp/sign-in.ts'
import { type ClientKind, type DemoSecrets, secretOf } from './secrets.ts'
import { DEMO_TENANTS } from './world.ts'

export type DoorDeps = {
  readonly ctx: Ctx
  /** In the run file, which only the server's owner can read. At least 32 characters. */
  readonly secret: string
  /** Absent: the demo is off, and the door signs nobody in and tells no credential. */
  readonly secrets?: DemoSecrets
}

/** Carries the run file's secret. */
export const DOOR_HEADER = 'x-lend-door'

const LOOPBACK = /^(::1|(::ffff:)?127(\.[0-9]{1,3}){3})$/
const BODY_BYTES_MAX = 4 * 1024

type Answer = { readonly status: 200 | 404 | 409 | 422; readonly body: object }

const done = (body: object): Answer => ({ status: 200, body })
const problem = (status: 404 | 409 | 422, says: string): Answer => ({
  status,
  body: { problem: says },
})

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Why a request may not come in, or null. All are answered alike: a prober learns nothing. */
function isRefused(c: Context, secret: string): boolean {
  const address = getConnInfo(c).remote.address ?? ''
  // A browser says where a page came from; a proxy on this machine would make everybody look local.
  const foreign = ['origin', 'sec-fetch-site', 'forwarded', 'x-forwarded-for'].some(
    (name) => c.req.header(name) !== undefined,
  )
  const shown = c.req.header(DOOR_HEADER) ?? ''
  return !timingSafeEqual(digest(shown), digest(secret)) || foreign || !LOOPBACK.test(address)
}

async function bodyOf(c: Context): Promise<unknown> {
  const text = await c.req.text()
  try {
    return text.length > BODY_BYTES_MAX ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Slugs and logins are the demo's own words; what is none is answered by name, so it must be short.
 */
const word = z.string().min(1).max(64)

const demoToken = z.strictObject({
  user: word,
  tenant: word,
  client: z.enum(['people', 'app']),
})
const demoCredentials = z.strictObject({ tenant: word })
const rotation = z.strictObject({ tenant: word, alg: z.enum(SIGNING_ALGS), now: z.boolean() })

const DEMO_OFF = 'The demo is off on this server, so it has no demo people and no demo credentials.'
const noTenant = (slug: string) => problem(404, `There is no tenant ${JSON.stringify(slug)}.`)

/** A real sign-in at the running demo provider, over HTTP, as a browser would do it. */
async function tokenFor(deps: DoorDeps, of: z.output<typeof demoToken>): Promise<Answer> {
  if (deps.secrets === undefined) return problem(409, DEMO_OFF)
  const clients = deps.secrets.idp.clientSecrets[of.tenant]
  const tenant = DEMO_TENANTS.find((one) => one.slug === of.tenant)
  if (clients === undefined || tenant === undefined) return noTenant(of.tenant)
  if (!tenant.users.some((user) => user.login === of.user)) {
    const logins = tenant.users.map((user) => user.login).join(', ')
    return problem(
      404,
      `There is no demo user ${JSON.stringify(of.user)} in ${of.tenant}: choose one of ${logins}.`,
    )
  }
  const { publicUrl } = deps.ctx
  const token = await signIn({
    publicUrl,
    tenant: of.tenant,
    login: of.user,
    client: of.client,
    clientSecret: clients[of.client],
  })
  return done({ token })
}

/** The JSON of `lend demo-credentials` (SPEC section 13). */
async function credentialsOf(
  deps: DoorDeps,
  of: z.output<typeof demoCredentials>,
): Promise<Answer> {
  const { ctx, secrets } = deps
  if (secrets === undefined) return problem(409, DEMO_OFF)
  const isDemo = DEMO_TENANTS.some((tenant) => tenant.slug === of.tenant)
  const facts = isDemo ? await demoFacts(ctx, of.tenant) : null
  if (facts === null) return noTenant(of.tenant)
  // A client that an admin has added since has a secret that only its maker knows.
  const known = (kind: ClientKind) => new Set(Object.keys(secrets[kind]?.[of.tenant] ?? {}))
  const secretFor = (kind: ClientKind, name: string) =>
    secretOf(secrets, { kind, tenant: of.tenant, name })
  const services = facts.services
    .filter(({ service }) => known('services').has(service))
    .map(({ id, service }) => ({
      client_id: id,
      client_secret: secretFor('services', service),
      service,
    }))
  const issuer = issuerOf(ctx, of.tenant)
  return done({
    issuer,
    token_endpoint: `${issuer}/oauth/token`,
    mcp: mcpUrlOf(ctx, of.tenant),
    agents: facts.agents
      .filter(({ name }) => known('agents').has(name))
      .map(({ id, name, templates }) => ({
        client_id: id,
        client_secret: secretFor('agents', name),
        templates,
      })),
    enforcement_points: facts.enforcementPoints
      .filter(({ name }) => known('enforcementPoints').has(name))
      .map(({ id, name }) => ({
        client_id: id,
        client_secret: secretFor('enforcementPoints', name),
      })),
    resource_servers: facts.resourceServers,
    proxies: facts.proxies
      .filter(({ name }) => known('proxies').has(name))
      .map(({ name, mounts }) => ({ name, mounts, secret: secretFor('proxies', name) })),
    ...(services.length === 0 ? {} : { services }),
  })
}

/**
 * One step of a rotation, on record in the tenant's chain. `now` makes the new key sign at once.
 */
async function rotate(deps: DoorDeps, of: z.output<typeof rotation>): Promise<Answer> {
  const { ctx } = deps
  return withTx(ctx.db, 'rotate_keys', async (tx) => {
    const [tenant] = await tx.sql<{ id: TenantId }>`
      select id from tenant where slug = ${of.tenant}`
    if (tenant === undefined) return noTenant(of.tenant)
    const rotated = await rotateKeys(tx, {
      tenantId: tenant.id,
      alg: of.alg,
      now: ctx.clock.now() / 1000,
      vault: ctx.vault,
      pace: of.now ? 'at_once' : 'staged',
    })
    const journal = new Journal(ctx, tenant.id)
    journal.tenant('admin.changed', { what: 'signing_key.rotated', alg: of.alg, ...rotated })
    await journal.write(tx)
    return done(
      'activeFrom' in rotated
        ? {
            stage: rotated.stage,
            kid: rotated.kid,
            active_from: new Date(rotated.activeFrom * 1000).toISOString(),
          }
        : rotated,
    )
  })
}

/** The whole embedded database, for `lend backup`. It holds every tenant's keys, so it is as private as the run file. */
async function copyOf(ctx: Ctx): Promise<Blob | null> {
  return (await ctx.db.copy?.()) ?? null
}

const NO_COPY = 'This server’s database is on a Postgres server: set DATABASE_URL as it has it.'

/**
 * The loopback door of the command line, `POST /_door/…`: for whoever can read the run file, from
 * this machine only, never for a page in a browser. Mounted at the root of the server's app.
 */
export function doorRoutes(deps: DoorDeps): Hono {
  const app = new Hono()
  const route = <T>(
    path: string,
    shape: z.ZodType<T>,
    answer: (deps: DoorDeps, of: T) => Promise<Answer>,
  ) =>
    app.post(path, async (c) => {
      c.header('cache-control', 'no-store')
      if (isRefused(c, deps.secret)) return c.json({ problem: 'This door is not for you.' }, 403)
      const read = shape.safeParse(await bodyOf(c))
      if (!read.success) return c.json({ problem: 'The command and the server do not match.' }, 400)
      const { status, body } = await answer(deps, read.data)
      return c.json(body, status)
    })
  route('/_door/demo-token', demoToken, tokenFor)
  route('/_door/demo-credentials', demoCredentials, credentialsOf)
  route('/_door/rotate-keys', rotation, (all, of) =>
    rotate(all, of).catch((error: unknown) => {
      if (error instanceof CannotSeal) return problem(409, error.message)
      throw error
    }),
  )
  app.post('/_door/backup', async (c) => {
    c.header('cache-control', 'no-store')
    if (isRefused(c, deps.secret)) return c.json({ problem: 'This door is not for you.' }, 403)
    const copy = await copyOf(deps.ctx)
    if (copy === null) return c.json({ problem: NO_COPY }, 409)
    return c.body(copy.stream(), 200, {
      'content-type': 'application/x-gzip',
      'content-length': String(copy.size),
    })
  })
  return app
}
