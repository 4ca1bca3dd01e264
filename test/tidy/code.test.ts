import { expect, test } from 'vitest'
import {
  FILES,
  lineAt,
  linesOf,
  type Node,
  nodesOf,
  textOf,
  typescriptIn,
} from './support/sources.ts'

/** What no code of ours does. Each rule names the place and what to do instead. */
const PRODUCT = typescriptIn('src', 'schema')
const ALL = typescriptIn('src', 'schema', 'test', 'bench')

const places = (
  files: readonly string[],
  is: (node: Node, file: string) => boolean,
): readonly string[] =>
  files.flatMap((file) =>
    nodesOf(file)
      .filter((node) => is(node, file))
      .map((node) => `${file}:${lineAt(file, node.start)}`),
  )

const child = (node: Node, key: string): Node | undefined => {
  const value = node[key]
  return typeof value === 'object' && value !== null && 'type' in value
    ? (value as Node)
    : undefined
}

/** `db.begin(…)` → `begin`. */
const methodOf = (node: Node): string | undefined => {
  if (node.type !== 'CallExpression') return undefined
  const callee = child(node, 'callee')
  if (callee?.type !== 'MemberExpression') return undefined
  const property = child(callee, 'property')
  // `this.#begin(…)` is a class's own business.
  return property?.type === 'Identifier' && typeof property.name === 'string'
    ? property.name
    : undefined
}

const usesGlobal = (node: Node, object: string, property?: string): boolean =>
  node.type === 'MemberExpression' &&
  child(node, 'object')?.name === object &&
  (property === undefined || child(node, 'property')?.name === property)

test('transactions are opened by withTx alone: tx.ts has the retries and the label', () => {
  const opening = (node: Node) =>
    ['transaction', 'begin', 'savepoint'].includes(methodOf(node) ?? '')
  // The two others stand around a database and hand on what withTx opens.
  const may = ['src/db/tx.ts:', 'src/db/shares.ts:', 'src/db/traced.ts:']
  const wrong = places(PRODUCT, opening).filter((at) => !may.some((file) => at.startsWith(file)))
  expect(wrong).toEqual([])
})

test('no `any`: say what it is, or unknown', () => {
  const wrong = places(ALL, (node, file) => {
    if (node.type !== 'TSAnyKeyword') return false
    const above = linesOf(file)[lineAt(file, node.start) - 2] ?? ''
    return !/biome-ignore lint\/suspicious\/noExplicitAny: \S/.test(above)
  })
  expect(wrong).toEqual([])
})

test('no `!`: assert says why it is there', () => {
  expect(places(ALL, (node) => node.type === 'TSNonNullExpression')).toEqual([])
})

test('no enum, namespace or parameter property: they are not erasable', () => {
  const kinds = new Set(['TSEnumDeclaration', 'TSModuleDeclaration', 'TSParameterProperty'])
  expect(places(ALL, (node) => kinds.has(node.type))).toEqual([])
})

test('no type error is silenced, and no lint rule without saying why', () => {
  const wrong = ALL.flatMap((file) =>
    linesOf(file).flatMap((line, i) => {
      const silenced = /@ts-(ignore|nocheck|expect-error)/.test(line)
      const lint = /biome-ignore(?!.*: \S.{10})/.test(line)
      const typeTest = file.startsWith('test/') && /@ts-expect-error: \S/.test(line)
      return (silenced && !typeTest) || lint ? [`${file}:${i + 1}`] : []
    }),
  )
  expect(wrong.filter((at) => !at.startsWith('test/tidy/'))).toEqual([])
})

// In pieces, so that this file does not find itself.
const REMINDER = new RegExp(`\\b(${['TO', 'FIX', 'XX'].join('|')})(DO|ME|X)\\b`)

test('no reminders: what is not done is an issue', () => {
  const wrong = FILES.filter((file) => /\.(ts|js|sql|md|json|ya?ml)$/.test(file)).flatMap((file) =>
    linesOf(file).flatMap((line, i) => (REMINDER.test(line) ? [`${file}:${i + 1}`] : [])),
  )
  expect(wrong.filter((at) => !at.startsWith('package-lock.json'))).toEqual([])
})

test('only what talks to a terminal writes to the console', () => {
  const may = ['src/cli/', 'src/demo/', 'src/main.ts']
  const wrong = places(PRODUCT, (node) => usesGlobal(node, 'console'))
  expect(wrong.filter((at) => !may.some((place) => at.startsWith(place)))).toEqual([])
})

test('only the program’s edges read the environment or end the process', () => {
  const may = ['src/cli/', 'src/demo/journey/', 'src/main.ts', 'schema/write.ts']
  const wrong = places(
    PRODUCT,
    (node) => usesGlobal(node, 'process', 'env') || usesGlobal(node, 'process', 'exit'),
  )
  expect(wrong.filter((at) => !may.some((place) => at.startsWith(place)))).toEqual([])
})

test('core, flows and db ask the clock that they are given', () => {
  const wrong = places(typescriptIn('src/core', 'src/flows', 'src/db'), (node) => {
    const fresh =
      node.type === 'NewExpression' &&
      child(node, 'callee')?.name === 'Date' &&
      Array.isArray(node.arguments) &&
      node.arguments.length === 0
    return fresh || usesGlobal(node, 'Date', 'now') || usesGlobal(node, 'performance', 'now')
  })
  // A caller waits in real time, whatever the clock says.
  expect(wrong.filter((at) => !at.startsWith('src/flows/await-answer.ts:'))).toEqual([])
})

test('nothing that matters is random but what ids.ts, tokens and the demo’s secrets make', () => {
  const wrong = places(PRODUCT, (node) => usesGlobal(node, 'Math', 'random'))
  expect(wrong).toEqual([])
})

test('SQL is never glued together: holes of a tagged template are parameters', () => {
  const raw = places(PRODUCT, (node) => ['unsafe', 'raw'].includes(methodOf(node) ?? ''))
  expect(raw).toEqual([])
})

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])
const FUNCTION_LINES_MAX = 70
const FILE_LINES_MAX = 400

/** Longer than the house allows, and why. */
const LONG_FILES: Readonly<Record<string, string>> = {
  'src/db/tables.ts': 'a declaration a table; there is nothing to follow from one to the next',
}

/** Lines of a function without those of the functions in it: each of them is looked at by itself. */
function ownLines(file: string, node: Node): number {
  const all = nodesOf(file).filter((one) => FUNCTIONS.has(one.type))
  const inside = all.filter((f) => f !== node && f.start >= node.start && f.end <= node.end)
  const direct = inside.filter(
    (f) => !inside.some((o) => o !== f && o.start <= f.start && o.end >= f.end),
  )
  const lines = (n: Node) => textOf(file).slice(n.start, n.end).split('\n').length
  return direct.reduce((sum, f) => sum - (lines(f) - 1), lines(node))
}

test(`a function fits on a screen: ${FUNCTION_LINES_MAX} lines`, () => {
  const long = PRODUCT.flatMap((file) =>
    nodesOf(file)
      .filter((node) => FUNCTIONS.has(node.type))
      .map((node) => ({ at: `${file}:${lineAt(file, node.start)}`, lines: ownLines(file, node) }))
      .filter(({ lines }) => lines > FUNCTION_LINES_MAX)
      .map(({ at, lines }) => `${at} has ${lines} lines`),
  )
  // A journey is told in one go.
  expect(long.filter((at) => !at.startsWith('src/demo/journey/'))).toEqual([])
})

test(`a file is read in one go: ${FILE_LINES_MAX} lines`, () => {
  const long = PRODUCT.filter((file) => linesOf(file).length - 1 > FILE_LINES_MAX)
  expect(long.filter((file) => !Object.hasOwn(LONG_FILES, file))).toEqual([])
  // An excuse that is no longer needed goes.
  expect(Object.keys(LONG_FILES).filter((file) => !long.includes(file))).toEqual([])
})

const CODE_COLUMNS_MAX = 100
const COMMENT_COLUMNS_MAX = 130

test(`lines end at column ${CODE_COLUMNS_MAX}, comments at ${COMMENT_COLUMNS_MAX}; only text may be longer`, () => {
  const long = ALL.flatMap((file) => {
    const texts = nodesOf(file).filter((node) => TEXT.has(node.type))
    let start = 0
    return linesOf(file).flatMap((line, i) => {
      const from = start
      start += line.length + 1
      const comment = /^\s*(\/\/|\/?\*)/.test(line) || /\S\s+\/\/ /.test(line)
      if (line.length <= (comment ? COMMENT_COLUMNS_MAX : CODE_COLUMNS_MAX)) return []
      // Biome breaks what can be broken: what is left is one text, or SQL inside a template.
      const inText = texts.some((node) => node.start < from + line.length && node.end > from + 60)
      return inText && !comment ? [] : [`${file}:${i + 1} has ${line.length} columns`]
    })
  })
  expect(long).toEqual([])
})

const TEXT = new Set(['Literal', 'TemplateLiteral', 'TemplateElement', 'ImportDeclaration'])
