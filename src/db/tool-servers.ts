import type { ToolRule } from '../core/tool-access.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { Page } from './directory.ts'
import type { Tx } from './tx.ts'

/** An MCP server behind the tool gateway, without its credential. */
export type ToolServerRow = {
  readonly id: string
  /** Also the service whose permissions govern its tools. */
  readonly name: string
  readonly title: string
  readonly url: string
  readonly credentialHeader: string
  readonly hasCredential: boolean
  readonly privateNetwork: boolean
  readonly status: 'active' | 'disabled'
  readonly createdAt: number
}

export const selectToolServers = (
  tx: Tx,
  of: Page & { readonly id?: string },
): Promise<readonly ToolServerRow[]> => tx.sql<ToolServerRow>`
  select id, name, title, url, credential_header as "credentialHeader",
    sealed_credential is not null as "hasCredential", private_network as "privateNetwork", status,
    extract(epoch from created_at)::float8 as "createdAt"
  from tool_server
  where tenant_id = ${of.tenantId} and (${of.id ?? null}::text is null or id = ${of.id ?? null})
    and ((extract(epoch from created_at) * 1000)::float8, id) < (${of.after[0]}::float8, ${of.after[1]})
  order by created_at desc, id desc limit ${of.limit}`

/** False: the name is taken. */
export async function insertToolServer(
  tx: Tx,
  tenantId: TenantId,
  s: ToolServerRow & { readonly sealed: string | null },
): Promise<boolean> {
  const made = await tx.sql`
    insert into tool_server (id, tenant_id, name, title, url, credential_header, sealed_credential,
      private_network, status, created_at)
    values (${s.id}, ${tenantId}, ${s.name}, ${s.title}, ${s.url}, ${s.credentialHeader}, ${s.sealed},
      ${s.privateNetwork}, ${s.status}, to_timestamp(${s.createdAt}::float8))
    on conflict do nothing returning id`
  return made.length === 1
}

/** Without `sealed` the credential that is there stays, unless the row has none any more. */
export async function updateToolServer(
  tx: Tx,
  tenantId: TenantId,
  s: ToolServerRow & { readonly sealed: string | null },
): Promise<void> {
  await tx.sql`
    update tool_server set title = ${s.title}, url = ${s.url}, credential_header = ${s.credentialHeader},
      sealed_credential = case when ${s.hasCredential} then coalesce(${s.sealed}::text, sealed_credential) end,
      private_network = ${s.privateNetwork}, status = ${s.status}
    where tenant_id = ${tenantId} and id = ${s.id}`
}

export async function deleteToolServer(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly id: string },
): Promise<void> {
  await tx.sql`delete from tool_server where tenant_id = ${of.tenantId} and id = ${of.id}`
}

/** What the gateway needs to speak for a session: the server, its sealed credential, and who may call which tool. */
export type ServedToolServer = ToolServerRow & {
  readonly sealed: string | null
  readonly rules: readonly ToolRule[]
}

/** Null when the tenant has no such server that is active. A service's permissions govern its own tools only. */
export async function findToolServer(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly name: string },
): Promise<ServedToolServer | null> {
  const [row] = await tx.sql<ServedToolServer>`
    select s.id, s.name, s.title, s.url, s.credential_header as "credentialHeader",
      s.sealed_credential is not null as "hasCredential", s.sealed_credential as sealed,
      s.private_network as "privateNetwork", s.status, extract(epoch from s.created_at)::float8 as "createdAt",
      (select coalesce(json_agg(x), '[]') from (
        select p.id as permission, p.access, p.tool ->> 'destination' as destination,
          array(select substr(t, length(s.name) + 2) from jsonb_array_elements_text(p.tool -> 'tools') as t
            where starts_with(t, s.name || '/')) as tools
        from permission p
        where p.kind = 'tool' and not p.retired and p.delegable and p.service_id = s.name
        order by p.id) x) as rules
    from tool_server s
    where s.tenant_id = ${of.tenantId} and s.name = ${of.name} and s.status = 'active'`
  return row ?? null
}
