import { z } from 'zod'
import { LIST_LENGTH_MAX } from '../../core/limits.ts'

const CURSOR_LENGTH_MAX = 512

/** `limit` of a list, as it comes in a query; `most` is what it is by default too. */
export const limitOf = (most: number) =>
  z
    .string()
    .regex(/^[1-9][0-9]{0,2}$/, { error: `must be a whole number from 1 to ${most}` })
    .transform(Number)
    .refine((n) => n <= most, { error: `must be at most ${most}` })
    .default(most)
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: most,
      description: `How many at most. By default ${most}.`,
    })

export const limit = limitOf(LIST_LENGTH_MAX)

export type SortKey = readonly (string | number)[]

/** The opaque place after which a list goes on. */
export const writeCursor = (key: SortKey): string =>
  Buffer.from(JSON.stringify(key)).toString('base64url')

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
}

/** `cursor` of a list whose sort key has this shape. A cursor that this list did not write is an error at `cursor`. */
export const cursor = <Key extends z.ZodType<SortKey>>(key: Key) =>
  z
    .string()
    .max(CURSOR_LENGTH_MAX, { error: 'is not a cursor of this list' })
    .transform((text, ctx): z.output<Key> => {
      const read = key.safeParse(parsed(text))
      if (read.success && writeCursor(read.data) === text) return read.data
      ctx.addIssue({ code: 'custom', message: 'is not a cursor of this list' })
      return z.NEVER
    })
    .optional()
    .meta({ description: 'The `next` of the page before.' })

/** Sort key of lists of things with an id, newest first: milliseconds since the epoch, then the id. */
export const byTimeAndId = z.tuple([
  z.number().int().min(0).max(8.64e15),
  z
    .string()
    .max(64)
    .regex(/^[a-z0-9_]+$/),
])

/** Cuts a list that was read with one row too many, and says where it goes on. */
export function page<Row, Item>(
  rows: readonly Row[],
  of: {
    readonly limit: number
    readonly item: (row: Row) => Item
    readonly key: (row: Row) => SortKey
  },
): { readonly items: readonly Item[]; readonly next?: string } {
  const shown = rows.slice(0, of.limit)
  const last = shown.at(-1)
  return {
    items: shown.map(of.item),
    ...(rows.length > of.limit && last !== undefined ? { next: writeCursor(of.key(last)) } : {}),
  }
}
