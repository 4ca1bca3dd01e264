import type { TenantId } from '../core/vocabulary.ts'
import type { Ctx } from '../ports.ts'

/** Which row a credential is sealed for: moved to another row or tenant it does not open (I17). */
type Of = { readonly tenantId: TenantId; readonly id: string }

const contextOf = ({ tenantId, id }: Of): string => `tool_server ${tenantId} ${id}`

/** Null: this instance has no vault. */
export const sealedFor = (ctx: Ctx, of: Of, credential: string): string | null =>
  ctx.vault?.seal(credential, contextOf(of)) ?? null

/** Null: it was sealed with a key that this instance does not have, or for another row. */
export const openedFor = (ctx: Pick<Ctx, 'vault'>, of: Of, sealed: string): string | null =>
  ctx.vault?.open(sealed, contextOf(of)) ?? null
