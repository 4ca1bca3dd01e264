import fc from 'fast-check'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { sequences } from './commands.ts'
import { createStage, type Stage } from './real.ts'
import { run } from './run.ts'

const RUNS = Number(process.env.LEND_MODEL_RUNS ?? 1000)
const SEED = process.env.LEND_MODEL_SEED
const PATH = process.env.LEND_MODEL_PATH

describe('the system equals the idea', () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await createStage()
  })
  afterAll(() => stage.world.close())

  it(`does what the model says, in ${RUNS} sequences, with I1 to I18 after every command`, async () => {
    await fc.assert(
      fc.asyncProperty(sequences, (commands) => run(stage, commands)),
      {
        numRuns: RUNS,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
        ...(PATH === undefined ? {} : { path: PATH }),
      },
    )
  })
})
