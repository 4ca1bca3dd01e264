/** How a run was asked for. */
export type Options = {
  readonly rounds: number
  /** About how long one side is measured in one round. */
  readonly seconds: number
  /** A few requests a side, to see that everything works; its figures mean nothing. */
  readonly quick: boolean
  /** Where the measured server's profile goes, if it is wanted. */
  readonly profiled: { readonly profile?: string }
  /** Told whether the database could be kept to its core. */
  readonly pinned: (did: boolean) => void
}
