import { CliProblem, findRunFile, type RunFile } from './run-file.ts'

/** The running server's loopback door, as its run file names it. */

const ANSWER_MILLIS_MAX = 30_000

const members = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? { ...value } : {}

/** A database may be large. */
const FILE_MILLIS_MAX = 600_000

async function answerOf(
  run: RunFile,
  path: string,
  body: object,
  millis = ANSWER_MILLIS_MAX,
): Promise<Response> {
  const at = (host: string) =>
    fetch(`http://${host}:${run.port}/_door/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-lend-door': run.secret },
      body: JSON.stringify(body),
      redirect: 'error',
      signal: AbortSignal.timeout(millis),
    })
  try {
    return await at('127.0.0.1')
  } catch {
    throw new CliProblem(
      `The server on port ${run.port} (process ${run.pid}) does not answer: look at its log, or start it again.`,
    )
  }
}

/**
 * Asks the running server and answers with what it says. Throws `CliProblem` with its sentence when
 * it refuses.
 */
export async function askServer(
  path: string,
  body: object,
): Promise<Readonly<Record<string, unknown>>> {
  const answer = await answerOf(findRunFile(process.env, process.cwd()), path, body)
  const said = members(await answer.json().catch(() => null))
  if (answer.ok) return said
  throw refusal(answer, said)
}

function refusal(answer: Response, said: Readonly<Record<string, unknown>>): CliProblem {
  const { problem } = said
  return new CliProblem(
    typeof problem === 'string'
      ? problem
      : `The server refused the command (HTTP ${answer.status}).`,
  )
}

/** Asks this running server for a file. Throws `CliProblem` with its sentence when it refuses. */
export async function askServerForFile(run: RunFile, path: string, body: object): Promise<Blob> {
  const answer = await answerOf(run, path, body, FILE_MILLIS_MAX)
  if (!answer.ok) throw refusal(answer, members(await answer.json().catch(() => null)))
  try {
    return await answer.blob()
  } catch {
    throw new CliProblem('The server stopped before all was read: nothing was written.')
  }
}
