import { lowered } from '../core/limits.ts'
import type { Item, Limits, Mode, TemplateId, TenantId } from '../core/vocabulary.ts'
import type { Child } from './tree.ts'
import type { Tx } from './tx.ts'

/** A template as one tenant runs it: the adopted version, cut by what the tenant kept (I15). */
export type Running = {
  readonly id: TemplateId
  readonly name: string
  readonly title: string
  readonly enabled: boolean
  readonly adoptedVersion: number | null
  readonly modes: readonly Mode[]
  readonly limits: Limits
  readonly ceilings: readonly (readonly Item[])[]
  readonly sensitiveMarks: readonly Item[]
  readonly children: readonly Child[]
  readonly context: string
}

type Sql = {
  id: TemplateId
  name: string
  title: string
  status: 'on' | 'off' | null
  adoptedVersion: number | null
  kept: Item[] | null
  keptModes: Mode[] | null
  keptLimits: Partial<Limits> | null
  ceiling: Item[] | null
  modes: Mode[] | null
  limits: Limits | null
  sensitive: Item[] | null
  children: Child[] | null
  context: string | null
}

/** Null: no such template, or it is private to another tenant. */
export async function runningTemplate(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly name: string },
): Promise<Running | null> {
  return (await runningTemplates(tx, { ...of, names: [of.name] })).get(of.name) ?? null
}

/** By name; one that the tenant does not see is not in it. */
export async function runningTemplates(
  tx: Tx,
  of: { readonly tenantId: TenantId; readonly names: readonly string[] },
): Promise<ReadonlyMap<string, Running>> {
  const rows = await tx.sql<Sql>`
    select t.id, t.name, t.title, e.status, e.adopted_version as "adoptedVersion", e.kept,
      e.modes as "keptModes", e.limits as "keptLimits", v.ceiling, v.modes, v.limits, v.sensitive,
      v.children, v.context
    from template t
    left join enablement e on e.template_id = t.id and e.tenant_id = ${of.tenantId}
    left join template_version v on v.template_id = t.id and v.version = e.adopted_version
    where t.name = any(${of.names}::text[]) and (t.visibility = 'public' or t.tenant_id = ${of.tenantId})`
  return new Map(rows.map((row) => [row.name, running(row)]))
}

function running(row: Sql): Running {
  const { limits } = row
  return {
    id: row.id,
    name: row.name,
    title: row.title,
    enabled: row.status === 'on' && limits !== null,
    adoptedVersion: row.adoptedVersion,
    modes: (row.modes ?? ['ask']).filter((mode) => (row.keptModes ?? []).includes(mode)),
    limits: lowered(limits ?? NOTHING, row.keptLimits ?? {}),
    ceilings: [row.ceiling ?? [], row.kept ?? []],
    sensitiveMarks: row.sensitive ?? [],
    children: row.children ?? [],
    context: row.context ?? '',
  }
}

/** What a template that is not turned on may do. */
const NOTHING: Limits = {
  sessionLifeSeconds: 0,
  subagentDepth: 0,
  liveChildren: 0,
  liveRootsPerUser: 0,
  itemsPerRequest: 0,
  requestsPerMinute: 0,
  openRequests: 0,
}

/** `renewal-briefs` or `renewal-briefs@3`; null when it is neither. */
export function templateRefOf(
  text: string,
): { readonly name: string; readonly version: number | null } | null {
  const match = /^([a-z][a-z0-9-]{0,63})(?:@([1-9][0-9]{0,5}))?$/.exec(text)
  if (match?.[1] === undefined) return null
  return { name: match[1], version: match[2] === undefined ? null : Number(match[2]) }
}
