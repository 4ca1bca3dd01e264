/** What one round measured of each side, in the row's own unit. */
export type Round = Readonly<Record<string, number>>

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const [low, high] = [sorted[middle - 1], sorted[middle]]
  if (high === undefined) return Number.NaN
  return sorted.length % 2 === 1 || low === undefined ? high : (low + high) / 2
}

const WARMING = 2

type Side = readonly [name: string, measure: () => Promise<number>]

/**
 * Measures the sides one after the other, round after round, each round starting with another side, so that what the
 * machine does in the meantime meets all alike. Two rounds warm up and are thrown away: the first finds the pace, the second
 * fills the tables as the others will, so that `warmed` takes true statistics.
 */
export async function alternate(
  sides: readonly Side[],
  of: { readonly rounds: number; readonly warmed?: () => Promise<void> },
): Promise<readonly Round[]> {
  const rounds: Round[] = []
  for (let round = 1 - WARMING; round <= of.rounds; round++) {
    if (round === 1) await of.warmed?.()
    const from = Math.abs(round) % sides.length
    const measured: Record<string, number> = {}
    for (const [name, measure] of [...sides.slice(from), ...sides.slice(0, from)])
      measured[name] = await measure()
    if (round > 0) rounds.push(measured)
    process.stdout.write('.')
  }
  return rounds
}

/** How many to send so that it takes about `seconds` at the rate last seen; bounded whatever that was. */
export function pace(seconds: number, bounds: { readonly first: number; readonly most: number }) {
  let next = Math.min(bounds.first, bounds.most)
  return {
    count: () => next,
    seen: (perSecond: number) => {
      next = Math.max(32, Math.min(bounds.most, Math.round(perSecond * seconds)))
      return perSecond
    },
  }
}

/** One figure against another, as a reader wants it: the median of the rounds' own ratios. */
export type Compared = {
  readonly row: string
  readonly what: string
  readonly unit: '/s' | 'ms' | 's'
  readonly lend: number
  readonly other: { readonly name: string; readonly value: number } | null
  readonly ratio: number | null
  readonly reach: string
  readonly met: boolean | null
  readonly note?: string
  readonly rounds: readonly Round[]
}

/** `most`: the ratio is of times and must not be above; else it is of rates and must not be below. */
export function compare(of: {
  readonly row: string
  readonly what: string
  readonly unit: Compared['unit']
  readonly rounds: readonly Round[]
  readonly lend: string
  readonly other: string
  readonly reach: string
  readonly least?: number
  readonly most?: number
  readonly note?: string
}): Compared {
  const values = (name: string) => of.rounds.map((round) => round[name] ?? Number.NaN)
  const ratio = median(of.rounds.map((r) => (r[of.lend] ?? Number.NaN) / (r[of.other] ?? 0)))
  const met =
    of.least !== undefined ? ratio >= of.least : of.most !== undefined ? ratio <= of.most : null
  return {
    row: of.row,
    what: of.what,
    unit: of.unit,
    lend: median(values(of.lend)),
    other: { name: of.other, value: median(values(of.other)) },
    ratio,
    reach: of.reach,
    met,
    ...(of.note === undefined ? {} : { note: of.note }),
    rounds: of.rounds,
  }
}

/** A row, or part of one, that was not measured, and why. */
export type Missing = { readonly row: string; readonly what: string; readonly why: string }
export type Row = Compared | Missing
