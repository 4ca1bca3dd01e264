import { itemKey } from '../../core/item.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Item, Limits, TenantId } from '../../core/vocabulary.ts'
import { type CatalogEntry, catalogEntries } from '../../db/catalog.ts'
import {
  type Buildable,
  type DraftTerms,
  retiredPermissions,
  type Sponsor,
  selectBuildable,
  selectSponsor,
} from '../../db/studio.ts'
import type { Child } from '../../db/tree.ts'
import type { Tx } from '../../db/tx.ts'
import { canonicalItem } from '../items.ts'

export type ProblemCode =
  | 'purpose_missing'
  | 'ceiling_empty'
  | 'item_invalid'
  | 'item_unknown'
  | 'item_retired'
  | 'never_delegable'
  | 'item_twice'
  | 'limit_too_high'
  | 'child_unknown'
  | 'child_unpublished'
  | 'child_cyclic'
  | 'child_twice'
  | 'sponsor_missing'
  | 'sponsor_disabled'
  | 'sponsor_gone'
  | 'example_differs'
  | 'example_invalid'

/** What keeps a draft from being published. `pointer`: RFC 6901, into the draft. */
export type TemplateProblem = {
  readonly pointer: string
  readonly code: ProblemCode
  readonly message: string
}

/** What a draft is checked against, as it stands now. */
export type CheckWorld = {
  /** Absent for a draft that has no template yet. */
  readonly template?: string | undefined
  readonly catalog: ReadonlyMap<string, CatalogEntry>
  readonly retired: ReadonlySet<string>
  /** Every version that the owner may build on, by name, reachable from the draft's children. */
  readonly buildable: ReadonlyMap<string, readonly Buildable[]>
  readonly sponsor: Sponsor | null
}

/** Trees of templates are shallow (the limit on subagents is 2); this only bounds what is read for a check. */
const LEVELS_MAX = 20

/** Reads all templates below these children, level by level; the tenant's own and public ones only. */
export async function templatesBelow(
  tx: Tx,
  tenantId: TenantId,
  children: readonly Child[],
): Promise<ReadonlyMap<string, readonly Buildable[]>> {
  const found = new Map<string, Buildable[]>()
  let names = [...new Set(children.map((child) => child.template))]
  for (let level = 0; names.length > 0 && level < LEVELS_MAX; level++) {
    const rows = await selectBuildable(tx, { tenantId, names })
    for (const name of names) found.set(name, [])
    for (const row of rows) found.get(row.template)?.push(row)
    const below = rows.flatMap((row) => row.children.map((child) => child.template))
    names = [...new Set(below)].filter((name) => !found.has(name))
  }
  return found
}

export async function checkWorld(
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly template?: string | undefined
    readonly terms: DraftTerms
  },
): Promise<CheckWorld> {
  const { tenantId, terms } = of
  const ids = [...new Set([...terms.ceiling, ...terms.sensitive].map((item) => item.permission))]
  return {
    template: of.template,
    catalog: await catalogEntries(tx, ids),
    retired: await retiredPermissions(tx, ids),
    buildable: await templatesBelow(tx, tenantId, terms.children),
    sponsor:
      terms.sponsor === null ? null : await selectSponsor(tx, { tenantId, ref: terms.sponsor }),
  }
}

const escaped = (segment: string): string => segment.replaceAll('~', '~0').replaceAll('/', '~1')
export const pointerOf = (...segments: readonly (string | number)[]): string =>
  segments.map((segment) => `/${escaped(String(segment))}`).join('')

/** A dotted path of `canonicalItem` as a pointer. What is inside a filter stays in the sentence: a field may have dots. */
function placeOf(at: string, path: string, message: string) {
  const [member, ...inside] = path.split('.').slice(1)
  const where = inside.length > 0 ? `${inside.join('.')}: ` : ''
  return {
    pointer: member === undefined ? at : `${at}${pointerOf(member)}`,
    message: `${where}${message}`,
  }
}

function itemProblem(item: Item, at: string, world: CheckWorld): TemplateProblem | null {
  const permission = world.catalog.get(item.permission)
  const pointer = `${at}/permission`
  if (permission === undefined)
    return world.retired.has(item.permission)
      ? { pointer, code: 'item_retired', message: `${item.permission} is retired` }
      : { pointer, code: 'item_unknown', message: `the catalog has no ${item.permission}` }
  if (!permission.delegable)
    return { pointer, code: 'never_delegable', message: `no agent can ever hold ${permission.id}` }
  const read = canonicalItem(item, { catalog: world.catalog }, 'i')
  return 'error' in read
    ? { code: 'item_invalid', ...placeOf(at, read.error.path, read.error.message) }
    : null
}

function listProblems(
  member: 'ceiling' | 'sensitive',
  list: readonly Item[],
  world: CheckWorld,
): readonly TemplateProblem[] {
  const seen = new Map<string, number>()
  return list.flatMap((item, i) => {
    const at = pointerOf(member, i)
    const problem = itemProblem(item, at, world)
    const first = seen.get(itemKey(item))
    seen.set(itemKey(item), first ?? i)
    const twice: readonly TemplateProblem[] =
      first === undefined
        ? []
        : [{ pointer: at, code: 'item_twice', message: `is the same as ${member}[${first}]` }]
    return problem === null ? twice : [problem, ...twice]
  })
}

/** Whether what a child may start, at whatever depth, leads back to the template itself. */
function leadsBack(template: string | undefined, from: Child, world: CheckWorld): boolean {
  const seen = new Set<string>()
  const visit = (child: Child, path: readonly string[]): boolean => {
    if (child.template === template || path.includes(child.template)) return true
    const key = `${child.template}@${child.version}`
    if (seen.has(key)) return false
    seen.add(key)
    const pinned = (world.buildable.get(child.template) ?? []).filter(
      (one) => child.version === undefined || one.version === child.version,
    )
    return pinned.some((one) =>
      one.children.some((below) => visit(below, [...path, child.template])),
    )
  }
  return visit(from, [])
}

function childProblems(children: readonly Child[], world: CheckWorld): readonly TemplateProblem[] {
  return children.flatMap((child, i): readonly TemplateProblem[] => {
    const at = pointerOf('children', i)
    const name = `${child.template}@${child.version}`
    if (children.findIndex((one) => one.template === child.template) < i)
      return [{ pointer: at, code: 'child_twice', message: `${child.template} is listed already` }]
    if (leadsBack(world.template, child, world))
      return [{ pointer: at, code: 'child_cyclic', message: `${name} would start itself again` }]
    const versions = world.buildable.get(child.template) ?? []
    if (versions.length === 0)
      return [{ pointer: at, code: 'child_unknown', message: `there is no ${child.template}` }]
    return versions.some((one) => one.version === child.version && one.status === 'published')
      ? []
      : [{ pointer: at, code: 'child_unpublished', message: `${name} is not published` }]
  })
}

const limitProblems = (limits: Limits): readonly TemplateProblem[] =>
  Object.entries(limits).flatMap(([name, value]): readonly TemplateProblem[] => {
    const most =
      name === 'requestWaitSeconds' ? LIMITS.sessionLifeSeconds : LIMITS[name as keyof Limits]
    return most !== undefined && value > most
      ? [
          {
            pointer: pointerOf('limits', name),
            code: 'limit_too_high',
            message: `is at most ${most}`,
          },
        ]
      : []
  })

const SPONSOR_SAYS = {
  disabled: 'has left: name another sponsor',
  gone: 'is nobody of this organisation',
} as const

function sponsorProblems(terms: DraftTerms, world: CheckWorld): readonly TemplateProblem[] {
  const pointer = '/sponsor'
  if (terms.sponsor === null)
    return [{ pointer, code: 'sponsor_missing', message: 'name who answers for it' }]
  const status = world.sponsor?.status ?? 'gone'
  return status === 'active'
    ? []
    : [{ pointer, code: `sponsor_${status}`, message: SPONSOR_SAYS[status] }]
}

/**
 * All that keeps a draft from being published, at once (SPEC section 3). Pure: the same whether it is asked live, at
 * submission or, under the lock, at publication. Whether the reviewer is an author is the review's question.
 */
export function templateProblems(terms: DraftTerms, world: CheckWorld): readonly TemplateProblem[] {
  const problems: TemplateProblem[] = []
  if (terms.purpose.trim() === '')
    problems.push({ pointer: '/purpose', code: 'purpose_missing', message: 'say what the job is' })
  if (terms.ceiling.length === 0 && terms.children.length === 0)
    problems.push({
      pointer: '/ceiling',
      code: 'ceiling_empty',
      message: 'an empty ceiling allows nothing, and there is no subagent either',
    })
  return [
    ...problems,
    ...listProblems('ceiling', terms.ceiling, world),
    ...limitProblems(terms.limits),
    ...childProblems(terms.children, world),
    ...listProblems('sensitive', terms.sensitive, world),
    ...sponsorProblems(terms, world),
  ]
}

export const checkTemplate = async (
  tx: Tx,
  of: {
    readonly tenantId: TenantId
    readonly template?: string | undefined
    readonly terms: DraftTerms
  },
): Promise<readonly TemplateProblem[]> => templateProblems(of.terms, await checkWorld(tx, of))
