import type { Slice } from '../core/slice.ts'
import { permissionOwners } from '../db/registry.ts'
import type { Tx } from '../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../fault.ts'

/** A file that was read: what it says, what it names, and what is wrong with it. `path` is a JSON pointer. */
export type ReadFile = {
  readonly errors: readonly FieldError[]
  /** Null: something is wrong with the file. */
  readonly slice: Slice | null
  readonly mentions: {
    readonly permissions: readonly {
      readonly pointer: string
      readonly id: string
      readonly kind: unknown
    }[]
    readonly tools: readonly { readonly pointer: string; readonly tool: string }[]
    readonly needed: readonly { readonly pointer: string; readonly id: string }[]
  }
}

/** What only the catalog can tell of a file: whose the permissions are, of what kind, and whether endpoints ask for real ones. */
async function againstCatalog(
  tx: Tx,
  service: string,
  { mentions }: Pick<ReadFile, 'mentions'>,
): Promise<readonly FieldError[]> {
  const named = [...mentions.permissions, ...mentions.needed].map((one) => one.id)
  const owners = await permissionOwners(
    tx,
    [...new Set(named)].filter((id) => !/\p{Cc}|\p{Cs}/u.test(id)),
  )
  const errors: FieldError[] = []
  const own = new Map(mentions.permissions.map((one) => [one.id, one.kind]))
  for (const { pointer, id, kind } of mentions.permissions) {
    const owner = owners.get(id)
    if (owner === undefined) continue
    if (owner.service !== service)
      errors.push({ path: `${pointer}/id`, message: `belongs to the service ${owner.service}` })
    else if (owner.kind !== kind)
      errors.push({
        path: `${pointer}/kind`,
        message: `is ${owner.kind} and stays so: a permission of another kind is another one`,
      })
  }
  for (const { pointer, tool } of mentions.tools)
    if (!tool.startsWith(`${service}/`))
      errors.push({ path: pointer, message: `must be a tool of ${service}, as in ${service}/send` })
  for (const { pointer, id } of mentions.needed) {
    const owner = owners.get(id)
    const foreign = owner !== undefined && owner.service !== service && !owner.retired
    if (!own.has(id) && !foreign)
      errors.push({ path: pointer, message: 'is a permission that is not in the catalog' })
    else if ((own.get(id) ?? owner?.kind) !== 'api')
      errors.push({
        path: pointer,
        message: 'must be a permission of kind api: a gateway checks no other',
      })
  }
  return errors
}

/** The slice of a file that may be published; 422 with all that is wrong. */
export async function checkedSlice(
  tx: Tx,
  service: string,
  file: ReadFile,
): Promise<Result<Slice>> {
  const errors = [...file.errors, ...(await againstCatalog(tx, service, file))]
  if (file.slice === null || errors.length > 0) return fail('unprocessable', { errors })
  return ok(file.slice)
}

/** A slice that was kept, as if it had been read again. */
export const fileOf = (slice: Slice): ReadFile => ({
  errors: [],
  slice,
  mentions: {
    permissions: slice.permissions.map((p, i) => ({ ...p, pointer: `/permissions/${i}` })),
    tools: slice.permissions.flatMap((p, i) =>
      (p.tool?.tools ?? []).map((tool, n) => ({
        pointer: `/permissions/${i}/tool/tools/${n}`,
        tool,
      })),
    ),
    needed: slice.endpoints.flatMap((e, i) =>
      e.permissions.map((id, n) => ({ pointer: `/endpoints/${i}/permissions/${n}`, id })),
    ),
  },
})
