import { mkdirSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Options } from './options.ts'
import { writeReport } from './report.ts'
import { a1 } from './rows/a1.ts'
import { b1 } from './rows/b1.ts'
import { costOf, costs } from './rows/cost.ts'
import { f1 } from './rows/f1.ts'
import { g1 } from './rows/g1.ts'
import { g2 } from './rows/g2.ts'
import { g3 } from './rows/g3.ts'
import { g4 } from './rows/g4.ts'
import { g5 } from './rows/g5.ts'
import { g6 } from './rows/g6.ts'
import { l1 } from './rows/l1.ts'
import { p1 } from './rows/p1.ts'
import { p2 } from './rows/p2.ts'
import { r1 } from './rows/r1.ts'
import { s1 } from './rows/s1.ts'
import { soak } from './rows/soak.ts'
import { t1 } from './rows/t1.ts'
import { t2 } from './rows/t2.ts'
import { t3 } from './rows/t3.ts'
import { t4 } from './rows/t4.ts'
import { t5 } from './rows/t5.ts'
import { createScratch, dropLeftovers, durability } from './support/database.ts'
import { pinnedNote } from './support/lend.ts'
import { machine, pinToLoadCore, root } from './support/machine.ts'
import type { Row } from './support/rounds.ts'

/** `npm run bench [-- ROW…] [--quick] [--rounds N] [--seconds S] [--profile]`: see bench/README.md. */

const ROWS: Readonly<Record<string, (options: Options) => Promise<readonly Row[]>>> = {
  T1: t1,
  T2: t2,
  T3: t3,
  T4: t4,
  T5: t5,
  G5: g5,
  G1: g1,
  G2: g2,
  G3: g3,
  G4: g4,
  G6: g6,
  R1: r1,
  F1: f1,
  L1: l1,
  B1: b1,
  P1: p1,
  P2: p2,
  A1: a1,
  S1: s1,
  soak,
}
/** Too long to run unless it is named. */
const LONG = new Set(['A1', 'S1', 'soak'])
/** These run on the embedded database: what a call sends to a server is not theirs to tell. */
const EMBEDDED = new Set(['B1', 'P1', 'P2', 'G2'])
/** Above this, others use the machine and even ratios wander. */
const LOAD_MAX = 0.7

/** Short enough for a cell; the whole of it goes to the terminal. */
function saidBy(error: unknown): string {
  console.error(error)
  return (
    (error instanceof Error ? error.message : String(error)).split('\n', 1)[0]?.slice(0, 100) ?? ''
  )
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      profile: { type: 'boolean', default: false },
    },
  })
  const wanted =
    positionals.length === 0 ? Object.keys(ROWS).filter((name) => !LONG.has(name)) : positionals
  const unknown = wanted.filter((name) => !Object.hasOwn(ROWS, name))
  if (unknown.length > 0)
    throw new Error(`There is no row ${unknown.join(', ')}: choose of ${Object.keys(ROWS)}.`)
  const facts = machine()
  if ((loadavg()[0] ?? 0) > LOAD_MAX)
    console.warn(`The load is ${facts.load_before}: others use this machine, expect wander.`)
  pinToLoadCore(process.pid)
  await dropLeftovers()
  const scratch = await createScratch('about')
  const database = await durability(scratch.sql).finally(scratch.drop)

  let databasePinned = true
  const options = (row: string): Options => {
    const profile = join(root, 'bench', 'out', `profile-${row}`)
    if (values.profile) mkdirSync(profile, { recursive: true })
    return {
      rounds: values.rounds === undefined ? (values.quick ? 1 : 5) : Number(values.rounds),
      seconds: values.seconds === undefined ? 3 : Number(values.seconds),
      quick: values.quick,
      profiled: values.profile ? { profile } : {},
      pinned: (did) => {
        databasePinned &&= did
      },
    }
  }
  const rows: Row[] = []
  for (const name of wanted) {
    process.stdout.write(`${name} `)
    // A row that cannot be measured says why in its place; the others still are.
    const measured = await ROWS[name]?.(options(name)).catch((error: unknown): readonly Row[] => [
      { row: name, what: '', why: `not run: ${saidBy(error)}` },
    ])
    rows.push(...(measured ?? []))
    process.stdout.write('\n')
  }
  if (wanted.some((name) => !EMBEDDED.has(name))) await costOf('start')
  const about = { ...facts, database, placed: pinnedNote(databasePinned) }
  const table = writeReport(root, { machine: about, rows, costs: costs() })
  console.log(`\n${table}\nWritten to bench/out: results.json, table.md, plot.svg`)
  process.exit(rows.some((row) => 'why' in row && row.why.startsWith('not run')) ? 1 : 0)
}

main().catch((error: unknown) => {
  console.error(error)
  process.exit(1)
})
