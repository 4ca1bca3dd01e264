import type { Options } from '../options.ts'
import { startLend, temporaryFolder } from '../support/lend.ts'
import { type Compared, median } from '../support/rounds.ts'

async function startOnce(data: string): Promise<number> {
  const started = performance.now()
  const lend = await startLend({ databaseUrl: null, data })
  const seconds = (performance.now() - started) / 1000
  await lend.stop()
  return seconds
}

/** B1: from the start of the process to the first 200 of `/readyz`, on the embedded database; and again on its files. */
export async function b1(options: Options): Promise<readonly Compared[]> {
  const rounds: { first: number; again: number }[] = []
  for (let i = 0; i < options.rounds; i++) {
    const folder = temporaryFolder()
    rounds.push({ first: await startOnce(folder.path), again: await startOnce(folder.path) })
    folder.remove()
    process.stdout.write('.')
  }
  const row = (name: 'first' | 'again', what: string, most: number): Compared => {
    const lend = median(rounds.map((round) => round[name]))
    return {
      row: 'B1',
      what,
      unit: 's',
      lend,
      other: null,
      ratio: null,
      reach: `< ${most} s`,
      met: lend < most,
      rounds,
    }
  }
  return [
    row('first', 'first start to ready, embedded database', 10),
    row('again', 'start again to ready', 3),
  ]
}
