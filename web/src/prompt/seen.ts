import type { Answer } from '../api/types.ts'

/**
 * What this tab knows of a request beyond what the server says: that it was shown here while it waited, that it was
 * answered here, and that an answer came too late. It outlives the card, which comes and goes with the screen.
 */
const waited = new Set<string>()
const answered = new Map<string, { readonly at: number; readonly answers: readonly Answer[] }>()
const late = new Set<string>()

export const seen = {
  waiting: (id: string) => waited.add(id),
  waited: (id: string) => waited.has(id),
  answer: (id: string, answers: readonly Answer[]) => answered.set(id, { at: Date.now(), answers }),
  answered: (id: string) => answered.get(id),
  tooLate: (id: string) => late.add(id),
  wasTooLate: (id: string) => late.has(id),
}
