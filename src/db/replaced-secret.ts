import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'

/** A table whose rows authenticate with a secret that can be replaced: agents, proxies and so on. */
type WithSecret = {
  readonly secretHash: PgColumn
  readonly previousSecretHash: PgColumn
  readonly previousSecretUntil: PgColumn
}

export type SecretChange = {
  /** Absent leaves both secrets as they are, null takes both away; given, it is the one from now on. */
  readonly secretHash: string | null | undefined
  /** Seconds: until when the one before still opens, if there was one. Null: no longer. One before that is closed in any case. */
  readonly previousUntil: number | null
}

/** What an update of such a row sets for a change of its secret, in one statement, so that two changes cannot mix. */
export function replacedSecret(
  table: WithSecret,
  { secretHash, previousUntil }: SecretChange,
): { secretHash?: SQL; previousSecretHash?: SQL; previousSecretUntil?: SQL } {
  if (secretHash === undefined) return {}
  const until = secretHash === null ? null : previousUntil
  const own = table.secretHash
  return {
    secretHash: sql`${secretHash}::text`,
    previousSecretHash: until === null ? sql`null` : sql`${own}`,
    previousSecretUntil:
      until === null
        ? sql`null`
        : sql`case when ${own} is null then null else to_timestamp(${until}::float8) end`,
  }
}
