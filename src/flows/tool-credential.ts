import type { TenantId } from '../core/vocabulary.ts'
import { opened, sealed } from '../db/sealed.ts'
import type { Ctx } from '../ports.ts'

/** Which row a credential is sealed for: moved to another row or tenant it does not open (I17). */
type Of = { readonly tenantId: TenantId; readonly id: string }

const rowOf = (of: Of) => ({ kind: 'tool_server', ...of }) as const

/** Null: this instance has no vault. */
export const sealedFor = (ctx: Ctx, of: Of, credential: string): string | null =>
  ctx.vault === undefined ? null : sealed(ctx.vault, rowOf(of), credential)

/** Null: it was sealed with a key that this instance does not have, or for another row. */
export const openedFor = (ctx: Pick<Ctx, 'vault'>, of: Of, text: string): string | null =>
  opened(ctx.vault, rowOf(of), { sealed: text, clear: null })
