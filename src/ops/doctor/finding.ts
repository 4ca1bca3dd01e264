/** `wrong` keeps something from working or from being safe; `warn` may be meant; `unknown` could not be looked at. */
export type Level = 'ok' | 'warn' | 'wrong' | 'unknown'

/** One thing that was looked at. Holds no secret, and no URL that could hold one. */
export type Finding = {
  readonly check: string
  readonly level: Level
  readonly says: string
  /** What to do about it; there unless it is well. */
  readonly mend?: string
}

export const well = (check: string, says: string): Finding => ({ check, level: 'ok', says })
export const finding = (
  level: Exclude<Level, 'ok'>,
  check: string,
  of: { readonly says: string; readonly mend: string },
): Finding => ({ check, level, ...of })

/** The code of an error from a driver or the network, wherever it was wrapped. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  if ('code' in error && typeof error.code === 'string') return error.code
  const inner = error instanceof AggregateError ? error.errors[0] : undefined
  return codeOf(inner ?? (error instanceof Error ? error.cause : undefined))
}
