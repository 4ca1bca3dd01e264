import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  findRunFile,
  type RunFile,
  removeRunFile,
  runFilePath,
  writeRunFile,
} from '../../src/cli/run-file.ts'

/** The command line finds the running server by a file that only its owner can read. */
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lend-run-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const SECRET = 'x'.repeat(43)
const run = (port: number, more: Partial<RunFile> = {}): RunFile => ({
  port,
  pid: process.pid,
  secret: SECRET,
  publicUrl: `http://localhost:${port}`,
  ...more,
})
const write = (port: number, more: Partial<RunFile> = {}) =>
  writeRunFile({ dataDir: folder, port }, run(port, more))
const find = (env: Record<string, string> = {}) =>
  findRunFile({ LEND_DATA: folder, ...env }, folder, join(folder, 'tmp'))
const deadPid = (): number => spawnSync(process.execPath, ['-e', '0']).pid

test('what was written is found, by folder and port', () => {
  write(4100)
  expect(find()).toEqual(run(4100))
  expect(find({ PORT: '4100' })).toEqual(run(4100))
  expect(() => find({ PORT: '4101' })).toThrow('No Lend server is running on port 4101')
})

test('only its owner can read it, whatever the umask', () => {
  const umask = process.umask(0)
  try {
    write(4100)
  } finally {
    process.umask(umask)
  }
  expect(statSync(runFilePath({ dataDir: folder, port: 4100 })).mode & 0o777).toBe(0o600)
})

test('a folder is made for it, for its owner alone', () => {
  const dataDir = join(folder, 'new')
  writeRunFile({ dataDir, port: 4100 }, run(4100))
  expect(statSync(dataDir).mode & 0o777).toBe(0o700)
})

test('an older file on the same port is replaced', () => {
  write(4100, { secret: 'y'.repeat(43) })
  write(4100)
  expect(find().secret).toBe(SECRET)
})

describe('what is not trusted is as good as absent', () => {
  const path = () => runFilePath({ dataDir: folder, port: 4100 })
  const withMode = (mode: number) => {
    write(4100)
    chmodSync(path(), mode)
  }
  test.each<[string, () => void]>([
    ['a server that is gone', () => write(4100, { pid: deadPid() })],
    ['a file that others can read', () => withMode(0o644)],
    ['a file that others can write', () => withMode(0o620)],
    ['broken JSON', () => writeFileSync(path(), '{', { mode: 0o600 })],
    ['a short secret', () => write(4100, { secret: 'x' })],
    ['an address that is none', () => write(4100, { publicUrl: 'nowhere' })],
    ['no process', () => write(4100, { pid: 0 })],
    [
      'a link to somewhere else',
      () => {
        writeFileSync(join(folder, 'other'), JSON.stringify(run(4100)), { mode: 0o600 })
        symlinkSync(join(folder, 'other'), path())
      },
    ],
    ['a folder', () => mkdirSync(path(), { mode: 0o700 })],
  ])('%s', (_, make) => {
    make()
    expect(() => find()).toThrow('No Lend server is running')
  })
})

describe('several servers', () => {
  test('PORT chooses; without it there is nothing to choose by', () => {
    write(4101)
    write(4102)
    expect(() => find()).toThrow('on ports 4101, 4102: set PORT')
    expect(find({ PORT: '4102' }).port).toBe(4102)
  })

  test('the usual port is the usual choice', () => {
    write(4000)
    write(4102)
    expect(find().port).toBe(4000)
  })

  test('one that is gone does not count', () => {
    write(4101, { pid: deadPid() })
    write(4102)
    expect(find().port).toBe(4102)
  })
})

describe('a server that keeps nothing', () => {
  const own = () => join(folder, 'tmp', `lend-${process.getuid?.() ?? 0}`)
  const inMemory = () => {
    mkdirSync(own(), { recursive: true, mode: 0o700 })
    writeRunFile({ dataDir: own(), port: 4100 }, run(4100))
  }

  test('is found when LEND_DATA says so, and when it says nothing', () => {
    inMemory()
    expect(find({ LEND_DATA: 'memory' }).port).toBe(4100)
    expect(find({ LEND_DATA: '' }).port).toBe(4100)
  })

  test('is not found in another’s folder', () => {
    inMemory()
    expect(() => find()).toThrow('No Lend server is running')
  })

  test('the server in this folder comes first', () => {
    inMemory()
    writeRunFile({ dataDir: join(folder, '.lend'), port: 4200 }, run(4200))
    expect(find({ LEND_DATA: '' }).port).toBe(4200)
  })

  test('its path is in a folder of this user’s own', () => {
    const path = runFilePath({ dataDir: null, port: 4100 })
    expect(path).toBe(join(tmpdir(), `lend-${process.getuid?.() ?? 0}`, 'run-4100.json'))
  })
})

test('a server that stops removes its own file and no other’s', () => {
  const at = { dataDir: folder, port: 4100 }
  write(4100, { pid: process.ppid })
  removeRunFile(at)
  expect(existsSync(runFilePath(at))).toBe(true)
  write(4100)
  removeRunFile(at)
  expect(existsSync(runFilePath(at))).toBe(false)
  removeRunFile(at)
})

test('a PORT that is none is named', () => {
  expect(() => find({ PORT: 'http' })).toThrow('PORT must be')
})
