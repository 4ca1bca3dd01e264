import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { configFrom } from '../config.ts'
import type { TenantId, UserId } from '../core/vocabulary.ts'
import { Journal } from '../db/activity.ts'
import { CannotSeal, keeping } from '../db/sealed.ts'
import { type Db, type Tx, withTx } from '../db/tx.ts'
import { systemClock, systemIds } from '../ids.ts'
import type { Ctx, Vault } from '../ports.ts'
import { createTenantKeys } from '../tokens/keys.ts'
import { sharedVault } from '../vault.ts'
import { openDatabase } from './database.ts'
import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'
import { SETUP_ARGS } from './setup-args.ts'
import { firstProxy, proxyFromFlags, proxyShape } from './setup-proxy.ts'

/**
 * `lend setup`: a tenant, its identity provider and its first admin, and its first reverse proxy, for an installation without
 * the demo.
 */

const UNSEEN = /\p{C}/u

const line = (max: number) =>
  z
    .string({ error: 'must be given' })
    .refine((text) => text.trim() !== '', { error: 'must not be empty' })
    .refine((text) => [...text].length <= max, { error: `must have at most ${max} characters` })
    .refine((text) => !UNSEEN.test(text), {
      error: 'must not have control or invisible characters',
    })

const word = (max: number) =>
  line(max).refine((text) => !/\s/.test(text), { error: 'must not have spaces' })

const shape = z
  .strictObject({
    tenant: line(63).regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
      error: 'must be lower-case letters, digits and inner hyphens, as in acme',
    }),
    name: line(100),
    issuer: word(512).refine((text) => URL.canParse(text) && !/[?#]/.test(text), {
      error: 'must be a URL without query or fragment, as in https://login.acme.example',
    }),
    audience: word(512),
    first_party_clients: z
      .array(word(255), { error: 'must be given' })
      .min(1, { error: 'must be given' }),
    admin: z.strictObject(
      {
        subject: line(255),
        login: word(64),
        name: line(100).optional(),
        email: word(254)
          .regex(/^[^@]+@[^@]+$/, { error: 'must be an e-mail address' })
          .optional(),
      },
      { error: 'must be given' },
    ),
    web_client_id: word(255).optional(),
    web_client_secret: line(512)
      .regex(/^[\x20-\x7e]+$/, { error: 'must be printable ASCII characters' })
      .optional(),
    creates_users: z.boolean({ error: 'must be true or false' }).default(false),
    private_network: z.boolean({ error: 'must be true or false' }).default(false),
    operator: z.boolean({ error: 'must be true or false' }).optional(),
    proxy: proxyShape.optional(),
  })
  .refine((s) => s.private_network || s.issuer.startsWith('https:'), {
    path: ['issuer'],
    error: 'must be an https URL unless private_network is set',
  })
  .refine((s) => !s.first_party_clients.includes(s.audience), {
    path: ['audience'],
    error: 'must not be a client id: tokens with that audience are ID tokens, which are refused',
  })

  .refine((s) => s.web_client_id === undefined || s.web_client_secret !== undefined, {
    path: ['web_client_secret'],
    error: 'must be given with a web client',
  })
  .refine((s) => s.web_client_secret === undefined || s.web_client_id !== undefined, {
    path: ['web_client_id'],
    error: 'must be given with its secret',
  })
  .refine((s) => !s.web_client_id || s.first_party_clients.includes(s.web_client_id), {
    path: ['web_client_id'],
    error: 'must be one of the first-party clients',
  })

export type Setup = z.output<typeof shape>

/** As the person who typed it knows the member. */
const FLAGS: Readonly<Record<string, string>> = {
  first_party_clients: 'first-party-client',
  web_client_id: 'web-client-id',
  web_client_secret: 'web-client-secret',
  'admin.subject': 'admin-subject',
  'admin.login': 'admin-login',
  'admin.name': 'admin-name',
  'admin.email': 'admin-email',
  creates_users: 'creates-users',
  private_network: 'private-network',
  'proxy.name': 'proxy',
  'proxy.family': 'proxy-family',
  'proxy.mounts': 'mount',
}

function fromFlags(given: Given): unknown {
  const some = (name: string, key: string) => {
    const value = given.text(name)
    return value === undefined ? {} : { [key]: value }
  }
  const clients = given.texts('first-party-client')
  return {
    ...some('tenant', 'tenant'),
    ...some('name', 'name'),
    ...some('issuer', 'issuer'),
    ...some('audience', 'audience'),
    ...(clients.length === 0 ? {} : { first_party_clients: clients }),
    ...some('web-client-id', 'web_client_id'),
    ...some('web-client-secret', 'web_client_secret'),
    admin: {
      ...some('admin-subject', 'subject'),
      ...some('admin-login', 'login'),
      ...some('admin-name', 'name'),
      ...some('admin-email', 'email'),
    },
    creates_users: given.flag('creates-users'),
    private_network: given.flag('private-network'),
    ...(given.flag('operator') ? { operator: true } : {}),
    ...proxyFromFlags(given),
  }
}

function fromFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const why = error instanceof SyntaxError ? 'is not JSON' : 'cannot be read'
    throw new CliProblem(`${path} ${why}.`)
  }
}

/**
 * Reads and checks what was given. Throws `CliProblem` that names the first option or member that
 * is wrong.
 */
export function setupFrom(given: Given): Setup {
  const file = given.text('file')
  const others = Object.keys(SETUP_ARGS).filter(
    (name) => name !== 'file' && (given.texts(name).length > 0 || given.flag(name)),
  )
  if (file !== undefined && others.length > 0)
    throw new CliProblem(`Give --file or options, not both: --${others[0]} is given too.`)
  const read = shape.safeParse(file === undefined ? fromFlags(given) : fromFile(file))
  if (read.success) return read.data
  const [issue] = read.error.issues
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys : []
  const path = [...(issue?.path ?? []), ...unknown.slice(0, 1)].join('.').replace(/\.[0-9]+$/, '')
  const flag = FLAGS[path.replace(/^proxy\.mounts\..*$/, 'proxy.mounts')] ?? path
  const shown = file === undefined ? `--${flag}` : path
  const says = unknown.length > 0 ? 'is not known' : (issue?.message ?? 'is wrong')
  throw new CliProblem(file === undefined ? `${shown} ${says}.` : `${file}: ${shown} ${says}.`)
}

type Existing = {
  id: TenantId
  issuer: string | null
  audience: string | null
  admin: string | null
}

const existing = (tx: Tx, of: Setup) => tx.sql<Existing>`
  select t.id, i.issuer, i.audience, u.subject as admin
  from tenant t
  left join identity_provider i on i.tenant_id = t.id and i.issuer = ${of.issuer}
  left join app_user u on u.tenant_id = t.id and u.issuer = ${of.issuer}
    and u.subject = ${of.admin.subject} and 'org_admin' = any(u.staff_roles)
  where t.slug = ${of.tenant}`

type SetupCtx = Omit<Ctx, 'publicUrl' | 'notify'>

async function insertProvider(
  ctx: SetupCtx,
  tx: Tx,
  { of, tenantId, now }: { readonly of: Setup; readonly tenantId: TenantId; readonly now: number },
): Promise<void> {
  const id = ctx.ids.id<string>('identityProvider')
  const keep = await keeping(tx, ctx.vault)
  if (keep === null) throw new CannotSeal()
  const { web_client_secret: secret } = of
  const row = { kind: 'identity_provider', tenantId, id } as const
  const kept = secret === undefined ? null : keep(row, secret)
  await tx.sql`
    insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, web_client_id,
      web_client_secret, sealed_web_client_secret, creates_users, private_network, created_at)
    values (${id}, ${tenantId}, ${of.issuer}, ${of.audience}, ${of.first_party_clients}::text[],
      ${of.web_client_id ?? null}, ${kept?.clear ?? null}, ${kept?.sealed ?? null},
      ${of.creates_users}, ${of.private_network}, to_timestamp(${now}::float8))`
}

async function insert(ctx: SetupCtx, tx: Tx, of: Setup): Promise<TenantId> {
  const tenantId = ctx.ids.id<TenantId>('tenant')
  const userId = ctx.ids.id<UserId>('user')
  const now = ctx.clock.now() / 1000
  await tx.sql`insert into tenant (id, slug, name, created_at)
    values (${tenantId}, ${of.tenant}, ${of.name}, to_timestamp(${now}::float8))`
  await tx.sql`insert into tenant_chain (tenant_id) values (${tenantId})`
  await createTenantKeys(tx, { tenantId, now, vault: ctx.vault })
  await insertProvider(ctx, tx, { of, tenantId, now })
  await tx.sql`
    insert into app_user (id, tenant_id, issuer, subject, login, name, email, staff_roles, created_at)
    values (${userId}, ${tenantId}, ${of.issuer}, ${of.admin.subject}, ${of.admin.login},
      ${of.admin.name ?? of.admin.login}, ${of.admin.email ?? null}, ${['org_admin']}::text[],
      to_timestamp(${now}::float8))`
  const journal = new Journal(ctx, tenantId)
  const by = 'setup'
  journal.tenant('admin.changed', { what: 'tenant.created', id: tenantId, by })
  journal.tenant('admin.changed', { what: 'identity_provider.created', issuer: of.issuer, by })
  journal.tenant(
    'admin.changed',
    { what: 'user.created', id: userId, staff_roles: ['org_admin'], by },
    { userId },
  )
  await journal.write(tx)
  return tenantId
}

/** Names the tenant that runs the catalog. Once, for good: its services' clients are in it. */
async function nameOperator(ctx: SetupCtx, tx: Tx, of: Setup, tenantId: TenantId): Promise<string> {
  const [there] = await tx.sql<{ id: TenantId; slug: string }>`
    select t.id, t.slug from operator_tenant o join tenant t on t.id = o.tenant_id`
  if (there !== undefined && there.id !== tenantId)
    throw new CliProblem(`The catalog is run by ${there.slug} already; nothing was changed.`)
  if (there !== undefined) return ' It runs the catalog.'
  await tx.sql`insert into operator_tenant (tenant_id) values (${tenantId})`
  const journal = new Journal(ctx, tenantId)
  journal.tenant('admin.changed', { what: 'operator.named', id: tenantId, by: 'setup' })
  await journal.write(tx)
  return ` From now on ${of.tenant} runs the catalog.`
}

/**
 * Writes the tenant, in one transaction. A second run with the same tenant, provider and admin
 * changes nothing and is no error; with others it changes nothing and throws `CliProblem`. Answers
 * with what to print. `vault` seals what the server needs to read again.
 */
export async function setupTenant(db: Db, of: Setup, vault?: Vault): Promise<string> {
  return withTx(db, 'setup', async (tx) => {
    await tx.sql`select pg_advisory_xact_lock(hashtextextended('lend:setup', 0))`
    const sealing = vault === undefined ? {} : { vault }
    const ctx = { db, clock: systemClock, ids: systemIds, ...sealing }
    const [found] = await existing(tx, of)
    const more = async (tenantId: TenantId): Promise<string> => {
      const operator = of.operator ? await nameOperator(ctx, tx, of, tenantId) : ''
      const { tenant, proxy } = of
      return proxy === undefined
        ? operator
        : operator + (await firstProxy(ctx, tx, { tenantId, tenant, proxy }))
    }
    if (found === undefined) {
      const says = await more(await insert(ctx, tx, of))
      return `Tenant ${of.tenant} is set up, with ${of.admin.login} as its first admin.${says}`
    }
    if (found.audience === of.audience && found.admin !== null) {
      const says = await more(found.id)
      return `Tenant ${of.tenant} is set up already; nothing was changed.${says}`
    }
    throw new CliProblem(
      `Tenant ${of.tenant} exists already, with another provider, audience or admin; nothing was changed.`,
    )
  })
}

/** The command. Answers with what to print. */
export async function setup(given: Given): Promise<string> {
  const of = setupFrom(given)
  const db = await openDatabase(process.env)
  try {
    const vault = sharedVault(configFrom(process.env, process.cwd()))
    return await setupTenant(db, of, vault)
  } finally {
    await db.close()
  }
}
