import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Command, sequences } from './commands.ts'
import { createStage, type Stage } from './real.ts'
import { run } from './run.ts'

const RUNS = Number(process.env.LEND_MODEL_RUNS ?? 1000)
const SEED = process.env.LEND_MODEL_SEED
const PATH = process.env.LEND_MODEL_PATH

/** SPEC section 4, all rows. */
const REASONS = [
  'unknown_permission',
  'outside_ceiling',
  'never_delegable',
  'user_lacks_access',
  'deny_rule',
  'already_held',
  'denied_this_session',
  'sensitive',
  'ask_rule',
  'reconsent',
  'allow_rule',
  'mode_auto',
  'mode_bypass',
  'mode_ask',
]

describe('the system equals the idea', () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await createStage()
  })
  afterAll(() => stage?.world.close())

  const fails = (commands: readonly Command[]): Promise<string | null> =>
    run(stage, commands).then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    )

  /** Leaves out what the failure does not need; what is printed can be pasted into `regressions.test.ts`. */
  async function smallest(commands: readonly Command[]): Promise<readonly Command[]> {
    for (const i of commands.keys()) {
      const fewer = commands.filter((_, at) => at !== i)
      if ((await fails(fewer)) !== null) return smallest(fewer)
    }
    return commands
  }

  it(`does what the model says, in ${RUNS} sequences, with I1 to I18 after every command`, async () => {
    const details = await fc.check(
      fc.asyncProperty(sequences, async (commands) => {
        await run(stage, commands)
      }),
      {
        numRuns: RUNS,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
        ...(PATH === undefined ? {} : { path: PATH }),
      },
    )
    if (!details.failed) {
      // Fewer would mean that the sequences no longer meet what they are for.
      if (RUNS >= 1000) expect([...stage.reasons].sort()).toEqual([...REASONS].sort())
      return
    }
    const [found] = details.counterexample ?? []
    if (found === undefined) throw new Error(fc.defaultReportMessage(details))
    const commands = await smallest(found)
    const lines = commands.map((command) => `  ${JSON.stringify(command)},`).join('\n')
    throw new Error(
      `${await fails(commands)}\nLEND_MODEL_SEED=${details.seed} LEND_MODEL_PATH=${details.counterexamplePath}\n[\n${lines}\n]\n`,
    )
  })
})
