import { effectiveMode, factsOf, type World } from '../core/facts.ts'
import { type Explanation, explainLayers } from '../core/layers.ts'
import type { Item, Mode, TenantId, UserId } from '../core/vocabulary.ts'
import { type CatalogEntry, catalogEntries } from '../db/catalog.ts'
import { isFrozenFor, type PersonRow, personAccess, personRules } from '../db/explain.ts'
import { maskedFields } from '../db/restrictions.ts'
import { runningTemplate } from '../db/templates.ts'
import type { Tx } from '../db/tx.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import { canonicalItems, type RawItem } from './items.ts'
import { secondsNow } from './live.ts'

export type ExplainedItem = Explanation & {
  readonly item: Item
  readonly entry: CatalogEntry | null
}

type Masks = ReadonlyMap<string, readonly string[]>

/** Items in canonical form, each with the decision and what every layer says. 422 names what is not well formed. */
export async function explainItems(
  tx: Tx,
  raw: readonly RawItem[],
  of: { readonly world: Omit<World, 'catalog'>; readonly masked?: Masks },
): Promise<Result<readonly ExplainedItem[]>> {
  const catalog = await catalogEntries(tx, [...new Set(raw.map((item) => item.permission))])
  const masked = of.masked === undefined ? {} : { masked: of.masked }
  const read = canonicalItems(raw, { catalog, ...masked })
  if (!read.ok) return read
  const world: World = { ...of.world, catalog }
  return ok(
    read.value.map((item) => ({
      item,
      entry: catalog.get(item.permission) ?? null,
      ...explainLayers(factsOf(world, item)),
    })),
  )
}

export type Asked = {
  readonly tenantId: TenantId
  readonly person: PersonRow
  readonly template: string
  readonly item: RawItem
  readonly mode: Mode
}

/** What keeps a session of this template for this person from asking at all, whatever the item. */
export type Blocked = 'template_off' | 'user_disabled' | 'frozen'

export type ExplainedAsk = ExplainedItem & {
  readonly version: number | null
  /** The mode that a new session would run in. */
  readonly mode: Mode
  readonly blocked: Blocked | null
}

/**
 * `GET /explain`: what a new session of this template, for this person, in this mode, would get if it asked for one item now,
 * by the same decision; and what each layer says. Writes nothing, and no agent can ask it.
 */
export async function explainAsk(ctx: Ctx, tx: Tx, of: Asked): Promise<Result<ExplainedAsk>> {
  const { tenantId, person } = of
  const running = await runningTemplate(tx, { tenantId, name: of.template })
  if (running === null) return fail('not_found', { detail: 'There is no such template.' })
  const now = secondsNow(ctx.clock)
  const userId: UserId = person.id
  const { id: templateId, enabled } = running
  const mode = effectiveMode({ mode: of.mode, modeExpiresAt: null, allowed: running.modes, now })
  const masked = await maskedFields(tx, userId)
  const explained = await explainItems(tx, [of.item], {
    masked,
    world: {
      // Not turned on: an empty list covers nothing.
      ceilings: [...running.ceilings, ...(enabled ? [] : [[]])],
      sensitiveMarks: running.sensitiveMarks,
      userAccess: await personAccess(tx, { tenantId, userId }),
      rules: await personRules(tx, { tenantId, userId, templateId, now }),
      held: [],
      denied: [],
      mode,
    },
  })
  if (!explained.ok) return explained
  const [one] = explained.value
  if (one === undefined) return fail('not_found')
  const frozen = await isFrozenFor(tx, { tenantId, userId, templateId })
  const off = enabled ? null : 'template_off'
  const blocked = off ?? (person.active ? null : 'user_disabled') ?? (frozen ? 'frozen' : null)
  return ok({ ...one, version: running.adoptedVersion, mode, blocked })
}
