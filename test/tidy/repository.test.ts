import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { emitted } from '../../schema/emit.ts'
import { FILES, linesOf, ROOT, textOf } from './support/sources.ts'

const PAGES = ['ARCHITECTURE.md', 'README.md', 'SECURITY.md', 'STANDARDS.md', 'CHANGELOG.md']
const TOP = /^(src|schema|test|drizzle|bench|bin|web|\.ci)\/[\w./-]*$|^[\w-]+\.(md|json|yml)$/

/** What a page names in backticks or links, as far as it looks like a path here. */
function pathsIn(page: string): readonly string[] {
  const text = textOf(page)
  const named = [...text.matchAll(/`([^`\s]+)`/g), ...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)]
  return [...new Set(named.map(([, path = '']) => path).filter((path) => TOP.test(path)))]
}

describe.each(PAGES)('%s', (page) => {
  // Pages arrive one by one.
  test.skipIf(!FILES.includes(page))('names only paths that exist', () => {
    expect(pathsIn(page).filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })

  test.skipIf(!FILES.includes(page))('links only to what exists', () => {
    const links = [...textOf(page).matchAll(/\]\((?!https?:|#|mailto:)([^)\s#]+)/g)]
    const missing = links.map(([, path = '']) => path).filter((p) => !existsSync(join(ROOT, p)))
    expect(missing).toEqual([])
  })
})

/** Names of columns that hold a secret, or what one is told by. Hashes of the record and public keys are none. */
const SECRET_COLUMN =
  /secret(?!_until)|private|sealed|token$|nonce|verifier|(state|browser|refresh|id)_hash/

test('SECURITY.md says of every column with a secret how it is kept', () => {
  const columns = [
    ...textOf('src/db/tables.ts').matchAll(/pgTable\(\s*'(\w+)',([\s\S]*?)\n\)?\}?\)/g),
  ]
    .flatMap(([, table, body = '']) =>
      [...body.matchAll(/(?:text|jsonb)\('(\w+)'\)/g)].map(([, column]) => `${table}.${column}`),
    )
    .filter((name) => SECRET_COLUMN.test(name.split('.')[1] ?? ''))
  expect(columns.length).toBeGreaterThan(15)
  expect(columns.filter((name) => !textOf('SECURITY.md').includes(`\`${name}\``))).toEqual([])
})

test.skipIf(!FILES.includes('README.md'))('commands that README and the scripts name exist', () => {
  const scripts = Object.keys(packageJson().scripts)
  const pages = PAGES.filter((page) => FILES.includes(page))
  const wrong = pages.flatMap((page) =>
    [...textOf(page).matchAll(/npm run ([\w:-]+)/g)]
      .map(([, script = '']) => script)
      .filter((script) => !scripts.includes(script))
      .map((script) => `${page}: npm run ${script}`),
  )
  expect(wrong).toEqual([])
})

type PackageJson = {
  scripts: Record<string, string>
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  engines: { node: string }
}
const packageJson = (): PackageJson => JSON.parse(textOf('package.json'))

test('package.json names exact versions', () => {
  const { dependencies, devDependencies } = packageJson()
  const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
    ([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
  )
  expect(loose).toEqual([])
})

test('a package is either for running or for developing', () => {
  const { dependencies, devDependencies } = packageJson()
  expect(Object.keys(dependencies).filter((name) => Object.hasOwn(devDependencies, name))).toEqual(
    [],
  )
})

const isText = (file: string): boolean =>
  !/\.(png|jpg|ico|woff2?|pdf|gz)$/.test(file) &&
  file !== 'package-lock.json' &&
  !file.startsWith('test/vectors/')

test('no file knows the machine that it was written on', () => {
  // In pieces, so that this file does not find itself.
  const machine = new RegExp(
    `(^|[\\s'"\`=(:])/(${['wo' + 'rk', 'ro' + 'ot', 'ho' + 'me/\\w+', 'Us' + 'ers/\\w+'].join('|')})(/|\\b(?![-.:]))`,
  )
  const wrong = FILES.filter(isText).flatMap((file) =>
    linesOf(file).flatMap((line, i) =>
      machine.test(line) ? [`${file}:${i + 1} ${line.trim().slice(0, 80)}`] : [],
    ),
  )
  expect(wrong).toEqual([])
})

test('no file has a conflict marker, a tab of indentation or a carriage return', () => {
  const wrong = FILES.filter(isText).flatMap((file) =>
    linesOf(file).flatMap((line, i) =>
      /^(<{7}|>{7}) |\r$/.test(line) || (/^\t/.test(line) && /\.(ts|js|sql)$/.test(file))
        ? [`${file}:${i + 1}`]
        : [],
    ),
  )
  expect(wrong).toEqual([])
})

test('every migration is in the journal, in order, and breaks between statements', () => {
  const journal: { entries: { idx: number; tag: string }[] } = JSON.parse(
    textOf('drizzle/meta/_journal.json'),
  )
  const files = FILES.filter((file) => /^drizzle\/[^/]+\.sql$/.test(file)).toSorted()
  expect(journal.entries.map((entry) => `drizzle/${entry.tag}.sql`)).toEqual(files)
  expect(journal.entries.map((entry) => entry.idx)).toEqual(journal.entries.map((_, i) => i))
})

/** Kept contracts are what the code says (`npm run schema` writes them anew). */
test('JSON Schema has not drifted: schema/json is what schema/emit.ts emits', () => {
  const folder = join(ROOT, 'schema', 'json')
  const kept = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.replaceAll('\\', '/'))
  const now = emitted()
  expect(kept.toSorted()).toEqual([...now.keys()].toSorted())
  const drifted = [...now].filter(
    ([name, text]) => readFileSync(join(folder, name), 'utf8') !== text,
  )
  expect(drifted.map(([name]) => name)).toEqual([])
})
