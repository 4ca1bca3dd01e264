import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { parseAst } from 'vitest/node'

/** The repository's files as the house rules look at them. */
export const ROOT = join(import.meta.dirname, '..', '..', '..')

/** Files that git keeps or would: tracked, and new ones that are not ignored. */
export const FILES: readonly string[] = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '-z'],
  { cwd: ROOT, encoding: 'utf8' },
)
  .split('\0')
  .filter((file) => file !== '' && isFile(file))

function isFile(file: string): boolean {
  const path = join(ROOT, file)
  return existsSync(path) && statSync(path).isFile()
}

const texts = new Map<string, string>()
export function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(ROOT, file), 'utf8')
  texts.set(file, text)
  return text
}

export const linesOf = (file: string): readonly string[] => textOf(file).split('\n')

export const lineAt = (file: string, offset: number): number =>
  textOf(file).slice(0, offset).split('\n').length

export const typescriptIn = (...folders: readonly string[]): readonly string[] =>
  FILES.filter((file) => file.endsWith('.ts') && folders.some((f) => file.startsWith(`${f}/`)))

/** A node of the syntax tree, as far as the rules look at one. */
export type Node = {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value

const trees = new Map<string, readonly Node[]>()

/** Every node of a file, parents before children. */
export function nodesOf(file: string): readonly Node[] {
  const known = trees.get(file)
  if (known !== undefined) return known
  const found: Node[] = []
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit)
    else if (isNode(value)) {
      found.push(value)
      Object.values(value).forEach(visit)
    }
  }
  visit(parseAst(textOf(file), { lang: 'ts' }))
  trees.set(file, found)
  return found
}

export type Import = {
  readonly file: string
  /** A file of this repository, or a package's specifier. */
  readonly of: string
  readonly typeOnly: boolean
}

const IMPORTING = new Set([
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
])

function isTypeOnly(node: Node): boolean {
  if (node.type === 'TSImportType') return true
  if (node.importKind === 'type' || node.exportKind === 'type') return true
  const specifiers = Array.isArray(node.specifiers) ? node.specifiers : []
  return specifiers.length > 0 && specifiers.every((s) => s.importKind === 'type')
}

/** Imports of every form: static, dynamic, re-exported, in a type. */
export function importsOf(file: string): readonly Import[] {
  return nodesOf(file).flatMap((node) => {
    const source = node.source
    if (!IMPORTING.has(node.type) || !isNode(source) || typeof source.value !== 'string') return []
    const of = source.value.startsWith('.') ? posix.join(dirname(file), source.value) : source.value
    return [{ file, of, typeOnly: isTypeOnly(node) }]
  })
}
