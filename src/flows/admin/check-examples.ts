import { effectiveMode } from '../../core/facts.ts'
import type { Item, Mode } from '../../core/vocabulary.ts'
import type { DraftTerms } from '../../db/studio.ts'
import type { Tx } from '../../db/tx.ts'
import { explainItems } from '../explain-decision.ts'
import type { RawItem } from '../items.ts'
import { pointerOf, type TemplateProblem } from './check-template.ts'

/** What builders say must come of an item: `refused outside_ceiling`, or only `refused`. */
export type Example = {
  readonly user_has: readonly RawItem[]
  readonly mode: Mode
  readonly item: RawItem
  readonly expect: string
}

const asItem = ({ permission, resource }: RawItem): Item => ({
  permission,
  ...(resource === undefined ? {} : { resource }),
})

/** Examples that the decision itself does not bear out, under the draft's own terms. Writes nothing. */
export async function exampleProblems(
  tx: Tx,
  terms: DraftTerms,
  examples: readonly Example[],
): Promise<readonly TemplateProblem[]> {
  const problems: TemplateProblem[] = []
  for (const [i, example] of examples.entries()) {
    const allowed = terms.modes
    const mode = effectiveMode({ mode: example.mode, modeExpiresAt: null, allowed, now: 0 })
    const explained = await explainItems(tx, [example.item], {
      world: {
        ceilings: [terms.ceiling],
        sensitiveMarks: terms.sensitive,
        userAccess: example.user_has.map(asItem),
        rules: [],
        held: [],
        denied: [],
        mode,
      },
    })
    if (!explained.ok) {
      const message = explained.fault.errors?.[0]?.message ?? 'is not well formed'
      problems.push({ pointer: pointerOf('examples', i, 'item'), code: 'example_invalid', message })
      continue
    }
    const verdict = explained.value[0]?.verdict
    const came = `${verdict?.outcome} ${verdict?.reason}`
    if (came === example.expect || verdict?.outcome === example.expect) continue
    const message = `expected ${example.expect}, but it is ${came}`
    problems.push({ pointer: pointerOf('examples', i, 'expect'), code: 'example_differs', message })
  }
  return problems
}
