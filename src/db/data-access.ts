import type { Attributes, Restriction } from '../core/data.ts'
import type { TenantId } from '../core/vocabulary.ts'
import type { CatalogRow } from './tree.ts'
import type { Tx } from './tx.ts'

/** A data permission with the rows it shows, as the catalog has them: checked where they are used. */
export type DataRow = CatalogRow & {
  readonly shows: { readonly rows: unknown; readonly fields: readonly string[] }
}

export type Viewer = {
  readonly attributes: Attributes
  readonly restrictions: readonly Restriction[]
}

/**
 * What a session's user is and is kept from on one entity, by themselves and by their groups (I14), and the data permissions of
 * these services that show it; none that is retired. Null: no such session.
 */
export async function selectSeen(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly sessionId: string
    readonly services: readonly string[]
    readonly entity: string
  },
): Promise<(Viewer & { readonly permissions: readonly DataRow[] }) | null> {
  const [row] = await tx.sql<Viewer & { readonly permissions: readonly DataRow[] }>`
    select u.attributes, (select coalesce(json_agg(x), '[]') from (
        select r.blocks, r.masks from restriction r
        where r.entity = ${of.entity} and r.tenant_id = u.tenant_id and (r.user_id = u.id
          or r.group_id in (select m.group_id from group_member m where m.user_id = u.id))
        order by r.created_at, r.id) x) as restrictions,
      (select coalesce(json_agg(x), '[]') from (
        select p.id, p.kind, p.access, p.risk, p.sensitive, p.delegable, p.title, p.description,
          p.service_id as service, p.enforced_at as "enforcedAt", p.data, false as "takesResource",
          json_build_object('rows', p.data -> 'rows', 'fields', p.data -> 'fields') as shows
        from permission p
        where p.kind = 'data' and not p.retired and p.service_id = any(${of.services}::text[])
          and p.data ->> 'entity' = ${of.entity}
        order by p.id) x) as permissions
    from session s join app_user u on u.id = s.user_id
    where s.tenant_id = ${of.tenantId} and s.id = ${of.sessionId}`
  return row ?? null
}
