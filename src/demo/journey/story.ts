import { isDeepStrictEqual, stripVTControlCharacters } from 'node:util'

/**
 * The story as it is told in the terminal, and the checks that stop it at the first step that
 * differs.
 */

/** A step went otherwise than it is written. The message says which, and how. */
export class Differs extends Error {
  override readonly name = 'Differs'
}

export type Line = { readonly permission: string; readonly note: string }

export type Story = {
  readonly chapter: (title: string) => void
  /** Begins a step; what differs from here on is said to differ in it. */
  readonly step: (title: string) => void
  readonly say: (who: string, what: string) => void
  /** What the app's third pane shows: the access that a session holds. */
  readonly pane: (title: string, lines: readonly Line[]) => void
  readonly table: (rows: readonly (readonly string[])[]) => void
  /** Throws `Differs` unless both are the same. */
  readonly same: (what: string, actual: unknown, expected: unknown) => void
  readonly holds: (what: string, condition: boolean) => void
  readonly done: () => void
}

const BOLD = '\u001b[1m'
const DIM = '\u001b[2m'
const PLAIN = '\u001b[0m'

const shown = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

export function createStory(out: NodeJS.WriteStream): Story {
  let current = 'the beginning'
  let steps = 0
  let checks = 0
  const line = (text: string) => out.write(`${out.isTTY ? text : stripVTControlCharacters(text)}\n`)
  const holds = (what: string, condition: boolean) => {
    checks++
    if (!condition) throw new Differs(`${current}: ${what} does not hold`)
  }
  const table = (rows: readonly (readonly string[])[]) => {
    const widths = (rows[0] ?? []).map((_, i) =>
      Math.max(...rows.map((row) => row[i]?.length ?? 0)),
    )
    for (const row of rows)
      line(`     ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')}`.trimEnd())
  }
  return {
    chapter: (title) => line(`\n${BOLD}${title}${PLAIN}`),
    step: (title) => {
      steps++
      current = `step ${steps} (${title})`
      line(`\n${BOLD}${steps}. ${title}${PLAIN}`)
    },
    say: (who, what) => line(`   ${(who === '' ? '' : `${who}:`).padEnd(9)} ${what}`),
    pane: (title, lines) => {
      line(`   ${DIM}access of ${title}:${PLAIN}${lines.length === 0 ? ' nothing' : ''}`)
      table(lines.map(({ permission, note }) => [`· ${permission}`, note]))
    },
    table,
    same: (what, actual, expected) => {
      checks++
      if (!isDeepStrictEqual(actual, expected))
        throw new Differs(
          `${current}: ${what} is ${shown(actual)} and should be ${shown(expected)}`,
        )
    },
    holds,
    done: () => line(`\n${BOLD}All as it is written:${PLAIN} ${steps} steps, ${checks} checks.`),
  }
}
