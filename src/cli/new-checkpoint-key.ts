import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { prepareCheckpointKey } from '../checkpoint-key.ts'
import { CliProblem } from './run-file.ts'

/**
 * `lend new-checkpoint-key FILE`: the first step of a rotation. The thumbprint goes into `LEND_CHECKPOINT_KEYS` of every
 * instance, and only then the file into its instance's LEND_DATA, as checkpoint-key.json: so each checkpoint is believed.
 */
export async function newCheckpointKey(file: string): Promise<string> {
  if (existsSync(file)) throw new CliProblem(`${file} is there already: name another file.`)
  if (!existsSync(dirname(file))) throw new CliProblem(`There is no folder ${dirname(file)}.`)
  return prepareCheckpointKey(file)
}
