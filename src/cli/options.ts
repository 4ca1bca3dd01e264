import { parseArgs } from 'node:util'
import type { ArgsDef } from 'citty'
import { CliProblem } from './run-file.ts'

/**
 * What was given on the command line. An option may be given more than once; the last counts where
 * one is wanted.
 */
export type Given = {
  readonly text: (name: string) => string | undefined
  readonly texts: (name: string) => readonly string[]
  readonly flag: (name: string) => boolean
  readonly rest: readonly string[]
}

/** `Unknown option '--x'. To specify a positional …`, over several lines → the first sentence. */
const firstSentence = (text: string): string =>
  text.split(/\.\s/)[0]?.split('\n')[0]?.replace(/\.$/, '') ?? text

/**
 * Reads a command's options strictly: citty ignores what it does not know, and an option that is
 * mistyped and ignored does something other than what was meant. `rest` counts the words that may
 * follow.
 */
export function strictly(rawArgs: readonly string[], args: ArgsDef): Given {
  const options = Object.entries(args).filter(([, arg]) => arg.type !== 'positional')
  const words = Object.keys(args).length - options.length
  const read = () => {
    try {
      return parseArgs({
        args: [...rawArgs],
        strict: true,
        allowPositionals: true,
        options: Object.fromEntries(
          options.map(([name, arg]) => [
            name,
            { type: arg.type === 'boolean' ? 'boolean' : 'string', multiple: true } as const,
          ]),
        ),
      })
    } catch (error) {
      throw new CliProblem(`${firstSentence(error instanceof Error ? error.message : '')}.`)
    }
  }
  const { values, positionals } = read()
  const surplus = positionals[words]
  if (surplus !== undefined)
    throw new CliProblem(`${JSON.stringify(surplus)} is not expected here.`)
  const all = (name: string): readonly unknown[] => values[name] ?? []
  const texts = (name: string) => all(name).filter((value) => typeof value === 'string')
  return {
    texts,
    text: (name) => texts(name).at(-1),
    flag: (name) => all(name).at(-1) === true,
    rest: positionals,
  }
}
