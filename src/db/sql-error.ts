/** What Postgres says of an error, from either driver. */

export const sqlState = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : error instanceof Error && error.cause !== undefined
      ? sqlState(error.cause)
      : undefined

/** The name of the constraint that refused a write, from either driver. */
export const refusedBy = (error: unknown): string | undefined => {
  if (typeof error !== 'object' || error === null) return undefined
  const named = error as { constraint_name?: string; constraint?: string; cause?: unknown }
  return named.constraint_name ?? named.constraint ?? refusedBy(named.cause)
}
