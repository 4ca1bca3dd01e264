import type { Item } from '../core/vocabulary.ts'

const where = (item: Item): string => {
  if (item.resource === undefined) return ''
  return item.resource.endsWith('/*')
    ? ` on everything in ${item.resource.slice(0, -2)}`
    : ` on ${item.resource}`
}

/**
 * What an allow rule will and will not do, in sentences that start a screen's line (USER-ASKS 23, 24). Titles come from
 * the catalog and the template, never from an agent.
 */
export function ruleSentences(
  item: Item,
  named: { readonly title: string; readonly template: string },
): { readonly covers: string; readonly does_not: string } {
  const narrowed = item.narrow === undefined ? '' : ', within exactly this filter'
  const other = item.resource === undefined ? '' : ', any other resource'
  const filter = item.narrow === undefined ? '' : ', another filter or none'
  return {
    covers: `Whenever ${named.template} works for you and asks for ${named.title}${where(item)}${narrowed}, it gets it for that session without asking you.`,
    does_not: `It does not cover any other permission${other}${filter}, or any other kind of agent, its subagents included. It never gives more than you have yourself at that time, and you can delete it.`,
  }
}
