// `npm test`: builds, then runs every suite that this machine can and says plainly which did not run. The last line is
// the count over all of them. LEND_TEST_ALL=1 (CI) makes a suite that is left out a failure.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const out = join(root, 'test', 'out')
const all = process.env.LEND_TEST_ALL === '1'
const counts = { passed: 0, failed: 0, skipped: 0 }
const leftOut = []

const databaseUrl =
  process.env.LEND_TEST_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres'

function answers(url) {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || 5432), timeout: 2000 })
    const done = (yes) => {
      socket.destroy()
      resolve(yes)
    }
    socket.once('connect', () => done(true))
    socket.once('error', () => done(false))
    socket.once('timeout', () => done(false))
  })
}

function run(name, args, env = {}) {
  console.log(`\n=== ${name}`)
  const done = spawnSync(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
  return done.status === 0
}

function runVitest(env) {
  const file = join(out, 'vitest.json')
  rmSync(file, { force: true })
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const passed = run(
    'unit, contract, database, race and model suites (vitest)',
    [vitest, 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`],
    env,
  )
  let report
  try {
    report = JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    counts.failed++
    return
  }
  counts.passed += report.numPassedTests
  counts.failed += report.numFailedTests
  counts.skipped += report.numPendingTests + report.numTodoTests
  // A file that breaks before its first test counts as one failure, as does an error outside any test.
  const broken = report.testResults.filter(
    (f) => f.status === 'failed' && f.assertionResults.every((a) => a.status !== 'failed'),
  )
  counts.failed += broken.length
  if (!passed && report.numFailedTests + broken.length === 0) counts.failed++
}

function runCounted(name, args) {
  if (run(name, args)) counts.passed++
  else counts.failed++
}

mkdirSync(out, { recursive: true })
runCounted('build', [join(root, 'bin', 'build.js')])
runCounted('types of the tests', [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '--noEmit',
])
runCounted('types of the page', [
  join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
  '-p',
  'web',
])
runCounted('lint and format', [
  join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome'),
  'check',
  '.',
])
const hasPostgres = await answers(databaseUrl)
if (!hasPostgres)
  leftOut.push(`the suites on a Postgres server: none answers at ${new URL(databaseUrl).host}`)
runVitest(hasPostgres ? {} : { LEND_TEST_NO_POSTGRES: '1' })
runCounted('journeys 2 and 3 through public doors', [
  join(root, 'dist', 'src', 'demo', 'journey', 'main.js'),
])

console.log('')
for (const suite of leftOut) console.log(`not run: ${suite}`)
if (all) counts.failed += leftOut.length
const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''
console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`)
process.exit(counts.failed === 0 ? 0 : 1)
