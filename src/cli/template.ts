import { readFileSync } from 'node:fs'
import { z } from 'zod'
import {
  templateFile,
  template as templateShape,
  templateValidated,
  templateVersion,
} from '../../schema/studio.ts'
import { tenantAddress } from './address.ts'
import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'
import { templateDiffText } from './template-text.ts'

/**
 * `lend template`: templates as files of their builders' own repository. JSON, since its schema is what the API checks and an
 * editor understands it without another parser. What a file means is asked of the server: the same check, the same diff and
 * the same decision as in the studio. Exit codes: 0 good, 1 it did not work or the file has problems, 2 the diff widens.
 */
type Env = Readonly<Record<string, string | undefined>>
type Fetch = (url: string, init: RequestInit) => Promise<Response>
type File = z.output<typeof templateFile>

const WIDENS = 2

type Answered = { readonly status: number; readonly body: unknown }
type Api = (method: string, path: string, body?: unknown) => Promise<Answered>

function apiOf(given: Given, env: Env, fetcher: Fetch): Api {
  const token = env.LEND_TOKEN
  if (!token) throw new CliProblem('LEND_TOKEN must be a token of a person, for the People API.')
  const base = `${tenantAddress(given, env)}/api`
  return async (method, path, body) => {
    const response = await fetcher(`${base}${path}`, {
      method,
      redirect: 'error',
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const read = z.json().safeParse(text === '' ? null : parsed(text))
    if (!read.success)
      throw new CliProblem(
        `${base}${path} answered ${response.status} and nothing that Lend says: is --url right?`,
      )
    return { status: response.status, body: read.data }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const problemShape = z.looseObject({
  code: z.string(),
  detail: z.string(),
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
})

/** The answer in its shape, or the server's own sentence. */
function good<S extends z.ZodType>(answer: Answered, shape: S): z.output<S> {
  const read = answer.status < 300 ? shape.safeParse(answer.body) : null
  if (read?.success) return read.data
  const problem = problemShape.safeParse(answer.body)
  if (!problem.success)
    throw new CliProblem(`The server answered ${answer.status}: is --url right?`)
  const { detail, errors = [] } = problem.data
  throw new CliProblem([detail, ...errors.map((e) => `${e.path}: ${e.message}`)].join(' '))
}

function fileAt(path: string): File {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    throw new CliProblem(`${path} cannot be read.`)
  }
  const value = parsed(text)
  if (value === undefined) throw new CliProblem(`${path} is not JSON.`)
  const read = templateFile.safeParse(value)
  if (read.success) return read.data
  const problems = read.error.issues.map((one) => `/${one.path.join('/')}: ${one.message}`)
  throw new CliProblem(`${path}: ${problems.join('; ')}`)
}

const draftIn = ({ $schema: _, name, title, visibility, examples, ...draft }: File) => draft

const validated = async (api: Api, file: File) =>
  good(
    await api('POST', '/templates/validate', {
      name: file.name,
      draft: draftIn(file),
      ...(file.examples === undefined ? {} : { examples: file.examples }),
    }),
    templateValidated,
  )

async function exported(api: Api, name: string, version: string | undefined): Promise<string> {
  const found = good(await api('GET', `/templates/${encodeURIComponent(name)}`), templateShape)
  const n = version ?? found.open_version ?? found.latest_version
  if (n === undefined) throw new CliProblem(`${name} has no version.`)
  const path = `/templates/${encodeURIComponent(name)}/versions/${encodeURIComponent(n)}`
  const v = good(await api('GET', path), templateVersion)
  const { purpose, ceiling, context, modes, limits, children, sensitive } = v
  const { title, visibility } = found
  const terms = { purpose, ceiling, context, modes, limits, children, sensitive }
  const sponsor = v.sponsor?.login ?? v.sponsor?.id
  const file = { name: found.name, title, visibility, ...terms, ...(sponsor ? { sponsor } : {}) }
  return JSON.stringify(file, null, 2)
}

async function applied(api: Api, file: File, given: Given): Promise<string> {
  const path = `/templates/${file.name}`
  const draft = draftIn(file)
  const answer = await api('GET', path)
  let written: z.output<typeof templateVersion>
  if (answer.status === 404) {
    const { name, title, visibility } = file
    written = good(
      await api('POST', '/templates', { name, title, visibility, draft }),
      templateVersion,
    )
  } else {
    const found = good(answer, templateShape)
    const open = found.open_version
    const n = open ?? (found.versions[0]?.version ?? 0) + 1
    const over = given.text('over')
    // What somebody wrote in the studio meanwhile is not lost without a word.
    if (open !== undefined && over === undefined) {
      const at = good(await api('GET', `${path}/versions/${n}`), templateVersion)
      throw new CliProblem(
        `Version ${n} is open at revision ${at.revision}: say --over ${at.revision} to write over it.`,
      )
    }
    if (over !== undefined && !/^[1-9][0-9]{0,8}$/.test(over))
      throw new CliProblem('--over must be a revision, as in --over 3.')
    const body = { ...draft, ...(open === undefined ? {} : { revision: Number(over) }) }
    written = good(await api('PUT', `${path}/versions/${n}`, body), templateVersion)
  }
  const at = `${path}/versions/${written.version}`
  const done = given.flag('submit')
    ? good(await api('POST', `${at}/submit`), templateVersion)
    : written
  return `${done.template}@${done.version} ${done.status}, revision ${done.revision}`
}

/** Runs one action; `out` prints a line. Answers with the exit code. */
export async function template(
  given: Given,
  env: Env,
  out: (line: string) => void,
  fetcher: Fetch = fetch,
): Promise<number> {
  const [action, what] = given.rest
  if (action === undefined || what === undefined)
    throw new CliProblem('Say what to do with which: export NAME, or validate, diff, apply FILE.')
  if (!['export', 'validate', 'diff', 'apply'].includes(action))
    throw new CliProblem(`There is no action ${JSON.stringify(action)}.`)
  const api = apiOf(given, env, fetcher)
  if (action === 'export') {
    out(await exported(api, what, given.text('version')))
    return 0
  }
  const file = fileAt(what)
  const checked = await validated(api, file)
  if (action === 'diff') {
    for (const line of templateDiffText(file, checked)) out(line)
    return checked.diff.widens ? WIDENS : 0
  }
  for (const { pointer, code, message } of checked.problems) out(`${pointer} ${code}: ${message}`)
  if (!checked.ok) return 1
  if (action === 'apply') out(await applied(api, file, given))
  else out(`${file.name}: no problems, ${file.examples?.length ?? 0} examples as expected`)
  return 0
}
