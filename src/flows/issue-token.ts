import type { TenantRef } from '../callers.ts'
import { claimsOf, type SessionClaims } from '../core/claims.ts'
import type { EnforcedAt } from '../core/vocabulary.ts'
import type { Journal } from '../db/activity.ts'
import { type CatalogRow, type Node, pathOf, subjectOf, type Tree } from '../db/tree.ts'
import type { Tx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import { type Ctx, issuerOf, mcpUrlOf, toolServerIn } from '../ports.ts'
import { secondsNow, templateRef } from './live.ts'

/** Where a token is for. One audience a token (SPEC section 6). */
export type Target = {
  readonly audience: string
  readonly subject: 'session' | 'user'
  /** Services whose grants it carries; null: the control token, which lists all that is held. */
  readonly services: readonly string[] | null
  /** Of them, only what is enforced there; absent: wherever. */
  readonly enforcedAt?: EnforcedAt
}

/**
 * The control audience by default, else a registered resource server of the tenant or its tool gateway's address of a
 * registered server; anything else is no target.
 */
export async function targetOf(
  ctx: Ctx,
  tx: Tx,
  of: { readonly tenant: TenantRef; readonly resource: string | undefined },
): Promise<Result<Target>> {
  const control = mcpUrlOf(ctx, of.tenant.slug)
  if (of.resource === undefined || of.resource === control)
    return ok({ audience: control, subject: 'session', services: null })
  const tools = toolServerIn(ctx, of.tenant.slug, of.resource)
  if (tools !== null) return toolTarget(tx, of.tenant, { name: tools, audience: of.resource })
  const [row] = await tx.sql<{ subject: 'session' | 'user'; services: string[] }>`
    select subject, services from resource_server
    where tenant_id = ${of.tenant.id} and resource = ${of.resource}`
  if (row === undefined) return fail('target_invalid')
  return ok({ audience: of.resource, subject: row.subject, services: row.services })
}

async function toolTarget(
  tx: Tx,
  tenant: TenantRef,
  { name, audience }: { readonly name: string; readonly audience: string },
): Promise<Result<Target>> {
  const [row] = await tx.sql`
    select from tool_server where tenant_id = ${tenant.id} and name = ${name} and status = 'active'`
  if (row === undefined) return fail('target_invalid')
  return ok({ audience, subject: 'session', services: [name], enforcedAt: 'tool_gateway' })
}

const enforcedAt = (target: Target, permission: CatalogRow | undefined): boolean =>
  permission !== undefined &&
  (target.services === null || target.services.includes(permission.service)) &&
  (target.enforcedAt === undefined || target.enforcedAt === permission.enforcedAt)

/** The grants of a session that a token for this target carries (I3). The tree has been narrowed to what still holds. */
export const carriedBy = (tree: Tree, node: Node, target: Target) =>
  node.grants.flatMap((g) => {
    const permission = tree.catalog.get(g.item.permission)
    if (permission === undefined || !enforcedAt(target, permission)) return []
    return [{ id: g.id, kind: permission.kind, readOnly: g.readOnly, ...g.item }]
  })

/** What a token endpoint answers with, once the claims are signed. */
export type Issued = {
  readonly claims: SessionClaims
  readonly sessionId: string
  readonly refreshToken?: string
}

/** Builds the claims of one token and records its issue in the same commit (I3, I4, I12). */
export function issueToken(
  ctx: Ctx,
  journal: Journal,
  of: {
    readonly tenant: TenantRef
    readonly tree: Tree
    readonly node: Node
    readonly target: Target
    readonly how: string
  },
): SessionClaims {
  const { tree, node, target, tenant } = of
  const [root, ...rest] = pathOf(tree, node)
  const level = (n: Node) => ({ sid: n.id, agentId: n.agentId, template: templateRef(n) })
  const claims = claimsOf({
    issuer: issuerOf(ctx, tenant.slug),
    audience: target.audience,
    subject: target.subject,
    tenant: tenant.slug,
    userId: node.userId,
    path: [level(root), ...rest.map(level)],
    sessionVersion: node.version,
    sessionExpiresAt: node.expiresAt,
    grants: carriedBy(tree, node, target),
    jti: ctx.ids.secret(),
    now: secondsNow(ctx.clock),
  })
  journal.session(subjectOf(node), 'token.issued', {
    how: of.how,
    jti: claims.jti,
    audience: claims.aud,
    expires_at: new Date(claims.exp * 1000).toISOString(),
    session_version: claims.session_version,
    grants: claims.authorization_details.map((d) => d.grant_id),
  })
  return claims
}
