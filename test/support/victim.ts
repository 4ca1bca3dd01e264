import { createHash } from 'node:crypto'
import { ACCESS_TOKEN, type LiveServer, TOKEN_EXCHANGE, type TokenAnswer } from './live-server.ts'

/** Globex with one of everything that a tenant can have, for those who must not reach it. */
export type Victim = {
  readonly session: TokenAnswer
  readonly child: TokenAnswer
  readonly request: {
    readonly id: string
    readonly digest: string
    readonly items: readonly string[]
  }
  /** By the path segment that comes before a parameter. */
  readonly pathIds: Readonly<Record<string, string>>
  readonly userId: string
  readonly agentId: string
  readonly template: string
}

/** What is globex's alone and is not an agent's or a session's: made past the flows, so that it needs no route. */
async function makeRows(lend: LiveServer, tenantId: string, userId: string): Promise<void> {
  const of = [tenantId, userId]
  const one = (sql: string, params: string[] = [tenantId]) => lend.rows(sql, params)
  await one(
    `insert into template values ('tpl_victim', 'globex-only', 'Globex only', $1, 'private', now())`,
  )
  await one(
    `insert into template_version
     select 'tpl_victim', 1, v.status, v.purpose, v.ceiling, v.context, v.modes, v.limits, v.children,
       v.sensitive, v.sponsor, $1, $2, v.published_at
     from template_version v join template t on t.id = v.template_id
     where t.name = 'email-drafter' and v.version = 1`,
    [userId, 'usr_reviewer'],
  )
  await one(`insert into enablement select $1, 'tpl_victim', e.status, 1, e.kept, e.modes, e.limits, now()
    from enablement e join template t on t.id = e.template_id
    where t.name = 'email-drafter' and e.tenant_id = $1`)
  await one(
    `insert into user_permission values
       ('prm_victim', $1, $2, 'dashboard:view', 'dashboard/globex', now())`,
    of,
  )
  await one(
    `insert into restriction (id, tenant_id, user_id, entity, masks, created_at)
     values ('rst_victim', $1, $2, 'account', '{phone}', now())`,
    of,
  )
  await one(
    `insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, effect, created_at)
     select 'rul_victim', $1, $2, id, 'accounts:read', 'deny', now() from template
     where name = 'email-drafter'`,
    of,
  )
  await one(
    `insert into tool_server (id, tenant_id, name, title, url, created_at)
     values ('tsv_victim', $1, 'contracts', 'Contracts', 'https://contracts.globex.example/mcp', now())`,
  )
  await one(
    `insert into service_account (id, tenant_id, name, secret_hash, created_at)
     values ('svc_victim', $1, 'Globex nightly', repeat('a', 64), now())`,
  )
  await one(
    `insert into service_account_permission
     values ('svp_victim', $1, 'svc_victim', 'accounts:read', now())`,
  )
  // Of a template that runs nowhere, so that nothing else here is frozen.
  await one(
    `insert into frozen (id, tenant_id, scope, target_id, created_by, created_at)
     values ('frz_victim', $1, 'template', 'tpl_victim', $2, now())`,
    of,
  )
}

const pathIdsOf = async (lend: LiveServer, tenantId: string): Promise<Record<string, string>> => {
  const [row] = await lend.rows<Record<string, string>>(
    `select (select id from user_group where tenant_id = $1 limit 1) as groups,
       (select id from role where tenant_id = $1 limit 1) as roles,
       (select id from role_assignment where tenant_id = $1 limit 1) as assignments,
       (select id from resource_server where tenant_id = $1 limit 1) as "resource-servers",
       (select id from enforcement_point where tenant_id = $1 limit 1) as "enforcement-points",
       (select id from identity_provider where tenant_id = $1 limit 1) as "identity-providers",
       (select proxy_id from gateway_mount where tenant_id = $1 order by id limit 1) as proxies,
       (select id from gateway_mount where tenant_id = $1 order by id limit 1) as mounts,
       (select id from access_grant where tenant_id = $1 limit 1) as grants,
       (select id from activity where tenant_id = $1 and type = 'access.decided' limit 1) as activity`,
    [tenantId],
  )
  return row ?? {}
}

export async function makeVictim(lend: LiveServer): Promise<Victim> {
  const tenantId = await lend.tenantId('globex')
  const userId = await lend.userId('gus')
  const session = await lend.start('gus')
  const asked = await lend.ask(
    session.access_token,
    [{ permission: 'accounts:read' }, { permission: 'accounts.rows:my_region' }],
    'globex',
  )
  if (asked.request_id === undefined) throw new Error('gus was not asked')
  await lend.answer('gus', asked.request_id)
  const fresh = await lend.reissue(session.refresh_token, { tenant: 'globex' })
  const pending = await lend.ask(
    fresh.access_token,
    [{ permission: 'email:send', resource: 'domain/customer.example' }],
    'globex',
  )
  const mcp = await lend.mcp(fresh.access_token, 'globex')
  const started = await mcp.call<{ session_id: string }>('iam.start_subagent', {
    template: 'email-drafter',
  })
  await mcp.close()
  const agent = await lend.agent(undefined, 'globex')
  const child = await lend.token(
    {
      grant_type: TOKEN_EXCHANGE,
      subject_token: fresh.access_token,
      subject_token_type: ACCESS_TOKEN,
      session_id: started.session_id,
    },
    agent,
    'globex',
  )
  await makeRows(lend, tenantId, userId)
  const id = pending.request_id ?? ''
  const [request] = await lend.rows<{ digest: string; items: string[] }>(
    `select digest, array(select i.id from request_item i where i.request_id = r.id) as items
     from access_request r where id = $1`,
    [id],
  )
  return {
    session: fresh,
    child: child.body,
    request: { id, digest: request?.digest ?? '', items: request?.items ?? [] },
    userId,
    agentId: agent.client_id,
    template: 'globex-only',
    pathIds: {
      ...(await pathIdsOf(lend, tenantId)),
      sessions: session.session_id,
      proposals: 'prp_none',
      'access-requests': id,
      approvals: id,
      items: request?.items?.[0] ?? '',
      rules: 'rul_victim',
      users: userId,
      permissions: 'prm_victim',
      restrictions: 'rst_victim',
      agents: agent.client_id,
      freezes: 'frz_victim',
      'tool-servers': 'tsv_victim',
      'service-accounts': 'svc_victim',
      templates: 'globex-only',
      versions: '1',
      // A page's address names the version after its template.
      studio: 'globex-only',
      ':template': '1',
      enablements: 'globex-only',
      'template-changes': 'globex-only',
      // The catalog is the deployment's, not a tenant's.
      catalog: 'accounts:read',
      services: 'accounts',
      // A registered tool server is named by its service.
      tools: 'mail',
      // The demo's agent app names its runs by their sessions.
      runs: session.session_id,
    },
  }
}

/** Rows of these are nobody's: bookkeeping of the whole installation. */
const NOT_A_TENANTS = ['feed_cursor', 'installation', 'session_transition', 'tenant']

type Table = { readonly name: string; readonly owned: boolean }
const tablesOf = (lend: LiveServer) =>
  lend.rows<Table>(
    `select t.table_name as name, exists (select from information_schema.columns c
       where c.table_name = t.table_name and c.column_name = 'tenant_id') as owned
     from information_schema.tables t
     where t.table_schema = 'public' and t.table_type = 'BASE TABLE' and t.table_name <> all($1::text[])
     order by 1`,
    [NOT_A_TENANTS],
  )

/** One hash a table over all rows of a tenant, and over all rows where they are not told apart. */
export async function hashRows(lend: LiveServer, tenant: string): Promise<Record<string, string>> {
  const hashes: Record<string, string> = {}
  const tenantId = await lend.tenantId(tenant)
  for (const { name, owned } of await tablesOf(lend)) {
    const rows = await lend.rows<{ row: string }>(
      `select t::text as row from "${name}" t ${owned ? 'where tenant_id = $1' : 'where $1 <> $2'} order by 1`,
      owned ? [tenantId] : [tenantId, ''],
    )
    const hash = createHash('sha256').update(rows.map((r) => r.row).join('\n'))
    hashes[name] = `${rows.length} rows, ${hash.digest('hex')}`
  }
  return hashes
}

/** Every id in a tenant's rows that is in no other tenant's: none of them may be read elsewhere. */
export async function idsOf(lend: LiveServer, tenant: string): Promise<ReadonlySet<string>> {
  const tenantId = await lend.tenantId(tenant)
  const [own, others] = [new Set<string>(), new Set<string>()]
  for (const { name, owned } of await tablesOf(lend)) {
    if (!owned) continue
    const rows = await lend.rows<{ row: string; mine: boolean }>(
      `select t::text as row, tenant_id = $1 as mine from "${name}" t`,
      [tenantId],
    )
    for (const { row, mine } of rows)
      for (const id of row.match(/\b[a-z]{3}_[A-Za-z0-9]{6,}\b/g) ?? [])
        (mine ? own : others).add(id)
  }
  for (const id of others) own.delete(id)
  return own
}
