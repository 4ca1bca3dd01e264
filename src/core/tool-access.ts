import { destinationsIn } from './destinations.ts'
import type { Held } from './held.ts'
import { covers } from './item.ts'
import type { Access, GrantId, Item } from './vocabulary.ts'

/**
 * Which tools of a server a session may call (SPEC section 9): one decision for the list and for the call, so that nothing is
 * listed that cannot be called, and nothing called that is not listed (USER-ASKS 40).
 */
export type ToolRule = {
  readonly permission: string
  readonly access: Access
  /** Names of the server's tools, as in `send_email`. */
  readonly tools: readonly string[]
  /** JSON pointer to where a call goes, or null: the permission takes no destination. */
  readonly destination: string | null
}

type ToolGrant = Pick<Held, 'id' | 'item' | 'readOnly'>

export type CallVerdict =
  | {
      readonly allowed: true
      readonly permission: string
      readonly resources: readonly string[]
      readonly grants: readonly GrantId[]
    }
  | {
      readonly allowed: false
      readonly reason: 'not_granted' | 'destination_unclear'
      readonly permission: string
      readonly resources: readonly string[]
      /** What to ask for with `iam.request_access`; none when the destination cannot be read. */
      readonly ask: readonly Item[]
      readonly problem?: { readonly path: string; readonly message: string }
    }

/** A rule with a destination is opened by domains, one without by a grant that names nothing. */
const fits = (rule: ToolRule, resource: string | undefined): boolean =>
  rule.destination === null ? resource === undefined : (resource?.startsWith('domain/') ?? false)

/** Those of the held grants that open a rule's tools at all. What is lent for reading only opens nothing that writes. */
const opening = (rule: ToolRule, held: readonly ToolGrant[]): readonly ToolGrant[] =>
  held.filter(
    (grant) =>
      grant.item.permission === rule.permission &&
      fits(rule, grant.item.resource) &&
      (!grant.readOnly || rule.access === 'read'),
  )

const governing = (rules: readonly ToolRule[], tool: string): readonly ToolRule[] =>
  rules.filter((rule) => rule.tools.includes(tool))

/** Whether some call of the tool would be allowed. A tool that no permission names is nobody's. */
export const mayCall = (
  rules: readonly ToolRule[],
  held: readonly ToolGrant[],
  tool: string,
): boolean => governing(rules, tool).some((rule) => opening(rule, held).length > 0)

function byRule(rule: ToolRule, held: readonly ToolGrant[], args: unknown): CallVerdict {
  const { permission } = rule
  const grants = opening(rule, held)
  if (rule.destination === null) {
    const ids = grants.slice(0, 1).map((grant) => grant.id)
    return ids.length > 0
      ? { allowed: true, permission, resources: [], grants: ids }
      : { allowed: false, reason: 'not_granted', permission, resources: [], ask: [{ permission }] }
  }
  const found = destinationsIn(args, rule.destination)
  if (!found.ok) {
    const problem = { path: found.path, message: found.why }
    const reason = 'destination_unclear'
    return { allowed: false, reason, permission, resources: [], ask: [], problem }
  }
  const { resources } = found
  const wanted = resources.map((resource): Item => ({ permission, resource }))
  const by = wanted.map((item) => grants.find((grant) => covers(grant.item, item))?.id)
  const ask = wanted.filter((_, i) => by[i] === undefined)
  if (ask.length > 0) return { allowed: false, reason: 'not_granted', permission, resources, ask }
  const ids = by.flatMap((id) => (id === undefined ? [] : [id]))
  return { allowed: true, permission, resources, grants: [...new Set(ids)] }
}

/**
 * Whether this very call is allowed. Permissions that name the same tool are alternatives: one of them must allow the call
 * whole, with all its destinations. Null when none names it. A refusal is by the one that the session is nearest to.
 */
export function decideCall(
  rules: readonly ToolRule[],
  held: readonly ToolGrant[],
  of: { readonly tool: string; readonly args: unknown },
): CallVerdict | null {
  const verdicts = governing(rules, of.tool)
    .toSorted((a, b) => opening(b, held).length - opening(a, held).length)
    .map((rule) => byRule(rule, held, of.args))
  return verdicts.find((verdict) => verdict.allowed) ?? verdicts[0] ?? null
}
