import { existsSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import { type ArgsDef, type CommandDef, defineCommand, renderUsage, runCommand } from 'citty'
import { BadSetting } from '../config.ts'
import type { SigningAlg } from '../tokens/keys.ts'
import { CATALOG_ARGS } from './catalog-args.ts'
import { CONFORMANCE_ARGS } from './conformance-args.ts'
import { askServer } from './door-client.ts'
import { type Given, strictly } from './options.ts'
import { CliProblem } from './run-file.ts'
import { SETUP_ARGS } from './setup-args.ts'
import { TEMPLATE_ARGS } from './template-args.ts'

/**
 * `lend`, the command line. What it prints can be piped: answers on stdout, one sentence on stderr
 * when it fails. Commands that need a database load what opens it only then.
 */

const TENANT = { type: 'string', default: 'acme', description: 'Slug of the tenant' } as const

const ALGS = ['ES256', 'RS256'] as const satisfies readonly SigningAlg[]

const oneOf = <Word extends string>(
  given: string,
  words: readonly Word[],
  option: string,
): Word => {
  const found = words.find((word) => word === given)
  if (found === undefined) throw new CliProblem(`${option} must be one of ${words.join(', ')}.`)
  return found
}

type Running = (given: Given) => Promise<string | number>

function command(description: string, args: ArgsDef, run: Running): CommandDef {
  return defineCommand({
    meta: { description },
    args,
    run: async ({ rawArgs }) => {
      const said = await run(strictly(rawArgs, args))
      if (typeof said === 'string') process.stdout.write(`${said}\n`)
      else process.exitCode = said
    },
  })
}

const demoToken = command(
  'Print a user access token got from the running demo’s identity provider, and nothing else',
  {
    user: { type: 'string', description: 'Login of a demo person, as in maya' },
    tenant: TENANT,
    client: {
      type: 'string',
      default: 'people',
      description: 'people opens the People API; app is what the demo agent exchanges',
    },
  },
  async (given) => {
    const user = given.text('user')
    if (!user) throw new CliProblem('Say whose token, as in --user maya.')
    const { token } = await askServer('demo-token', {
      user,
      tenant: given.text('tenant') ?? 'acme',
      client: oneOf(given.text('client') ?? 'people', ['people', 'app'], '--client'),
    })
    return String(token)
  },
)

const demoCredentials = command(
  'Print what a client needs to use the running demo, as JSON',
  { tenant: TENANT },
  async (given) =>
    JSON.stringify(
      await askServer('demo-credentials', { tenant: given.text('tenant') ?? 'acme' }),
      null,
      2,
    ),
)

const rotateKeys = command(
  'Take the next step of rotating a tenant’s signing key',
  {
    tenant: { type: 'string', description: 'Slug of the tenant' },
    alg: { type: 'string', default: 'ES256', description: ALGS.join(' or ') },
    now: { type: 'boolean', description: 'Let the new key sign at once, without the wait' },
  },
  async (given) => {
    const tenant = given.text('tenant')
    if (!tenant) throw new CliProblem('Say which tenant, as in --tenant acme.')
    const alg = oneOf(given.text('alg') ?? 'ES256', ALGS, '--alg')
    const rotated = await askServer('rotate-keys', { tenant, alg, now: given.flag('now') })
    return JSON.stringify(rotated, null, 2)
  },
)

const verifyActivity = command(
  'Check that nothing in the record was changed or removed: an export, or the database',
  {
    file: {
      type: 'positional',
      required: false,
      description: 'An NDJSON export. Left out: the database of DATABASE_URL or LEND_DATA',
    },
    extract: { type: 'boolean', description: 'The export was made with a filter' },
    tenant: { type: 'string', description: 'Only this tenant of the database' },
    trusted: {
      type: 'string',
      description: 'Thumbprint of a key that may have signed checkpoints. May be repeated',
    },
  },
  verify,
)

async function verify(given: Given): Promise<number> {
  const { verifyDatabase, verifyFile } = await import('./verify-activity.ts')
  const out = (line: string) => process.stdout.write(`${line}\n`)
  const [file] = given.rest
  if (file !== undefined) {
    if (!existsSync(file)) throw new CliProblem(`${file} cannot be read.`)
    return verifyFile(file, out, { extract: given.flag('extract') })
  }
  const tenant = given.text('tenant')
  const trusted = given.texts('trusted')
  const { openDatabase } = await import('./database.ts')
  const db = await openDatabase(process.env)
  try {
    return await verifyDatabase({ db }, out, {
      ...(tenant === undefined ? {} : { tenant }),
      ...(trusted.length === 0 ? {} : { trusted }),
    })
  } finally {
    await db.close()
  }
}

function fileIn(given: Given): string {
  const [file] = given.rest
  if (file === undefined) throw new CliProblem('Say which file, as in lend-monday.tar.')
  return file
}

const COMMANDS = {
  'demo-token': demoToken,
  'demo-credentials': demoCredentials,
  setup: command(
    'Create a tenant, its identity provider and its first admin',
    SETUP_ARGS,
    async (given) => (await import('./setup.ts')).setup(given),
  ),
  'rotate-keys': rotateKeys,
  catalog: command(
    'Check, compare and publish a service’s permissions.json, or draft one',
    CATALOG_ARGS,
    async (given) =>
      (await import('./catalog.ts')).catalog(given, process.env, (line) =>
        process.stdout.write(`${line}\n`),
      ),
  ),
  'verify-activity': verifyActivity,
  template: command(
    'Templates as files: export NAME, or validate, diff, apply FILE. LEND_TOKEN is a person’s token',
    TEMPLATE_ARGS,
    async (given) =>
      (await import('./template.ts')).template(given, process.env, (line) =>
        process.stdout.write(`${line}\n`),
      ),
  ),
  reseal: command(
    'Seal all kept keys and secrets with the first of LEND_SECRET_KEYS, so that the others can be taken out',
    {},
    async () => {
      const out = (line: string) => process.stdout.write(`${line}\n`)
      return (await import('./reseal.ts')).reseal(process.env, out)
    },
  ),
  'new-checkpoint-key': command(
    'Write an instance’s next checkpoint key into a new file, and print its thumbprint for LEND_CHECKPOINT_KEYS',
    { file: { type: 'positional', description: 'A file that is not there yet' } },
    async (given) => (await import('./new-checkpoint-key.ts')).newCheckpointKey(fileIn(given)),
  ),
  backup: command(
    'Write the database and this instance’s keys into one new file, while the server runs or not',
    { file: { type: 'positional', description: 'A file that is not there yet' } },
    async (given) => {
      const out = (line: string) => process.stdout.write(`${line}\n`)
      return (await import('./backup.ts')).backup(process.env, fileIn(given), out)
    },
  ),
  restore: command(
    'Bring a backup back into an empty LEND_DATA folder or an empty DATABASE_URL',
    { file: { type: 'positional', description: 'What lend backup wrote' } },
    async (given) => {
      const out = (line: string) => process.stdout.write(`${line}\n`)
      return (await import('./restore.ts')).restore(process.env, fileIn(given), out)
    },
  ),
  doctor: command(
    'Check this instance’s settings, database, keys, providers and address, and say how to mend what is wrong',
    { json: { type: 'boolean', description: 'Print the findings as JSON' } },
    async (given) => {
      const out = (line: string) => process.stdout.write(`${line}\n`)
      return (await import('./doctor.ts')).doctor(process.env, out, { json: given.flag('json') })
    },
  ),
  conformance: command(
    'Try hostile tokens against a resource server: which does it wrongly accept?',
    CONFORMANCE_ARGS,
    async (given) => (await import('./conformance.ts')).conformance(given, process.env),
  ),
}

const lend = defineCommand({
  meta: { name: 'lend', description: 'IAM for AI agents with zero standing access' },
  subCommands: COMMANDS,
})

const named = (name: string | undefined): CommandDef | undefined =>
  name !== undefined && Object.hasOwn(COMMANDS, name)
    ? COMMANDS[name as keyof typeof COMMANDS]
    : undefined

async function usageOf(name: string | undefined): Promise<string> {
  const one = named(name)
  const usage =
    one === undefined
      ? await renderUsage(lend)
      : await renderUsage({ ...one, meta: { ...(await metaOf(one)), name: name ?? '' } }, lend)
  return process.stdout.isTTY ? usage : stripVTControlCharacters(usage)
}

const metaOf = async (one: CommandDef) =>
  typeof one.meta === 'function' ? await one.meta() : await one.meta

/** Runs one command. Answers with the exit code. */
async function main(argv: readonly string[]): Promise<number> {
  const [name, ...rawArgs] = argv
  const asksHelp = [name, ...rawArgs].some((word) => word === '--help' || word === '-h')
  if (name === 'help' || asksHelp) {
    process.stdout.write(`${await usageOf(name === 'help' ? rawArgs[0] : name)}\n`)
    return 0
  }
  const one = named(name)
  if (one === undefined) {
    const what =
      name === undefined ? 'Say what to do' : `There is no command ${JSON.stringify(name)}`
    throw new CliProblem(`${what}: lend help lists the commands.`)
  }
  await runCommand(one, { rawArgs: [...rawArgs] })
  return Number(process.exitCode ?? 0)
}

/** One sentence for whatever went wrong; a trace helps nobody at a command line. */
function sentenceOf(error: unknown): string {
  if (error instanceof CliProblem || error instanceof BadSetting) return error.message
  const message = error instanceof Error ? error.message : String(error)
  return stripVTControlCharacters(message.split('\n')[0] ?? '') || 'It did not work.'
}

try {
  // Not exit(): what was printed into a pipe must get out first.
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`lend: ${sentenceOf(error)}\n`)
  process.exitCode = 1
}
