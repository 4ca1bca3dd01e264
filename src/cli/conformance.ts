import { type Hostile, keysOf, NotTestable, type Row, tryAll } from '../enforce/conformance.ts'
import { partsOf } from '../enforce/forgeries.ts'
import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'

/** What cannot be forged, and so is only tried when it is given. */
const SIGNED = [
  'another audience',
  'the control token',
  'another tenant',
  'expired',
  'an ended session',
]

function hostileIn(text: string): Hostile {
  const [, name = '', token = ''] = /^([^=]{1,60})=(\S+)$/.exec(text) ?? []
  if (token === '') throw new CliProblem('--hostile must be NAME=TOKEN.')
  return { name: `given: ${name}`, why: 'It takes a token that is good, and not for it.', token }
}

const lineOf = ({ name, status, outcome, why }: Row): string => {
  const mark = outcome === 'refused' ? 'ok      ' : outcome.padEnd(8)
  return `${mark}  ${String(status || '-').padStart(3)}  ${name}${outcome === 'accepted' ? `\n               ${why}` : ''}`
}

/**
 * `lend conformance`: a line for each hostile token. Exit code 0 when all are refused, 1 when any is not, 2 when nothing can be
 * told. Never prints a token.
 */
export async function conformance(given: Given, env: NodeJS.ProcessEnv): Promise<number> {
  const url = given.text('url')
  const token = given.text('token') ?? env.LEND_CONFORMANCE_TOKEN
  if (url === undefined || !URL.canParse(url))
    throw new CliProblem('Say where, as in --url https://…')
  if (!token) throw new CliProblem('Give a token that the server accepts, with --token.')
  const parts = partsOf(token)
  if (parts === null) throw new CliProblem('--token is not a signed token.')
  const issuer = given.text('issuer') ?? String(parts.payload.iss)
  const signed = given.texts('hostile').map(hostileIn)
  const out = (line: string) => process.stdout.write(`${line}\n`)
  try {
    const rows = await tryAll(
      { url, method: given.text('method') ?? 'GET' },
      { token, keys: await keysOf(issuer), signed, onRow: (row) => out(lineOf(row)) },
    )
    const bad = rows.filter(({ outcome }) => outcome !== 'refused').length
    if (signed.length === 0) out(`\nNot tried, since they cannot be forged: ${SIGNED.join(', ')}.`)
    out(`\n${rows.length} hostile tokens, ${bad} not refused.`)
    return bad === 0 ? 0 : 1
  } catch (error) {
    if (error instanceof NotTestable) process.stderr.write(`lend: ${error.message}\n`)
    else process.stderr.write('lend: The server or the issuer cannot be reached.\n')
    return 2
  }
}
