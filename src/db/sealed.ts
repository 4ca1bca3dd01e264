import type { Vault } from '../ports.ts'
import type { Tx } from './tx.ts'

/** What lies sealed in the database, by the table that it is in: each value in a row, and sealed for that row alone (I17). */
export const SEALED_KINDS = ['signing_key', 'identity_provider', 'tool_server'] as const
export type SealedKind = (typeof SEALED_KINDS)[number]

export type SealedRow = {
  readonly kind: SealedKind
  readonly tenantId: string
  /** A signing key's is its `kid`. */
  readonly id: string
}

/** How a value lies there: in one of the two ways. In clear only what an older version wrote, or no shared key can seal. */
export type Kept = { readonly sealed: string | null; readonly clear: string | null }

const contextOf = ({ kind, tenantId, id }: SealedRow): string => `${kind} ${tenantId} ${id}`

export const sealed = (vault: Vault, row: SealedRow, text: string): string =>
  vault.seal(text, contextOf(row))

/** Null: it was sealed with a key that is not here, or for another row. */
export const opened = (vault: Vault | undefined, row: SealedRow, kept: Kept): string | null =>
  kept.sealed === null ? kept.clear : (vault?.open(kept.sealed, contextOf(row)) ?? null)

/** The name of the key that sealed a text. */
export const sealedBy = (text: string): string => text.split('.')[1] ?? ''

/** A value that this instance may not write, since it would lie in clear among sealed ones. */
export class CannotSeal extends Error {
  override readonly name = 'CannotSeal'
  constructor() {
    super(
      'This cannot be kept: this process has no LEND_SECRET_KEYS, and what others wrote is sealed. Set it as they have it.',
    )
  }
}

/**
 * How new values are kept from now on. Sealed, as soon as something is or nothing lies in clear: an instance of an older version,
 * which reads only what is in clear, then cannot be there any more. Null: they cannot be kept here.
 */
export async function keeping(
  tx: Tx,
  vault: Vault | undefined,
): Promise<((row: SealedRow, text: string) => Kept) | null> {
  const [found] = await tx.sql<{ sealed: boolean; clear: boolean }>`
    select exists (select from signing_key where sealed_private_jwk is not null)
        or exists (select from identity_provider where sealed_web_client_secret is not null) as sealed,
      exists (select from signing_key where private_jwk is not null)
        or exists (select from identity_provider where web_client_secret is not null) as clear`
  const { sealed: some, clear } = found ?? { sealed: false, clear: false }
  if (vault?.isShared && (some || !clear))
    return (row, text) => ({ sealed: sealed(vault, row, text), clear: null })
  return some ? null : (_, text) => ({ sealed: null, clear: text })
}

/** Every value of the deployment that is sealed or should be. */
export const selectKept = (tx: Tx): Promise<readonly (SealedRow & Kept)[]> =>
  tx.sql<SealedRow & Kept>`
  select 'signing_key' as kind, tenant_id as "tenantId", kid as id, sealed_private_jwk as sealed,
    private_jwk::text as clear
  from signing_key
  union all
  select 'identity_provider', tenant_id, id, sealed_web_client_secret, web_client_secret from identity_provider
  where num_nonnulls(sealed_web_client_secret, web_client_secret) > 0
  union all
  select 'tool_server', tenant_id, id, sealed_credential, null from tool_server where sealed_credential is not null
  order by 1, 2, 3`

/** Of each key that sealed signing keys in use, a few of them. */
export const selectSealedSigners = (
  tx: Tx,
  most: number,
): Promise<readonly (SealedRow & Kept)[]> => tx.sql<SealedRow & Kept>`
  select 'signing_key' as kind, tenant_id as "tenantId", kid as id, sealed, null as clear
  from (select tenant_id, kid, sealed_private_jwk as sealed,
      row_number() over (partition by split_part(sealed_private_jwk, '.', 2) order by kid) as n
    from signing_key where status = 'active' and sealed_private_jwk is not null) k
  where n <= ${most}`

/** Replaces a value by a sealed one. False: it is not what it was, and stays as it is. */
export async function replaceKept(
  tx: Tx,
  row: SealedRow & { readonly from: Kept; readonly to: string },
): Promise<boolean> {
  const { kind, tenantId, id, to } = row
  const from = row.from.sealed ?? row.from.clear
  switch (kind) {
    case 'signing_key':
      return isOne(
        await tx.sql`
          update signing_key set sealed_private_jwk = ${to}, private_jwk = null
          where tenant_id = ${tenantId} and kid = ${id}
            and coalesce(sealed_private_jwk, private_jwk::text) = ${from} returning 1`,
      )
    case 'identity_provider':
      return isOne(
        await tx.sql`
          update identity_provider set sealed_web_client_secret = ${to}, web_client_secret = null
          where tenant_id = ${tenantId} and id = ${id}
            and coalesce(sealed_web_client_secret, web_client_secret) = ${from} returning 1`,
      )
    case 'tool_server':
      return isOne(
        await tx.sql`
          update tool_server set sealed_credential = ${to}
          where tenant_id = ${tenantId} and id = ${id} and sealed_credential = ${from} returning 1`,
      )
  }
}

const isOne = (rows: readonly unknown[]): boolean => rows.length === 1
