import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openEmbedded } from '../../src/db/open.ts'
import { expectSound } from '../race/support/sound.ts'
import { runOn } from '../support/databases.ts'

/** The embedded database on disk: what survives kill -9, and who may open its folder. */
type Writer = {
  readonly process: ChildProcess
  readonly lines: string[]
  /** Resolves once it has said so many lines, or has exited. */
  readonly said: (count: number) => Promise<void>
  readonly exited: Promise<number | null>
}

const running = new Set<ChildProcess>()

function startWriter(folder: string): Writer {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', 'test/db/support/embedded-writer.ts', folder],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  running.add(child)
  const lines: string[] = []
  const waiting = new Set<() => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    for (const look of [...waiting]) look()
  })
  const exited = once(child, 'close').then(([code]) => {
    running.delete(child)
    for (const look of [...waiting]) look()
    return code
  })
  const said = (count: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (lines.length < count && running.has(child)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return { process: child, lines, said, exited }
}

async function killed(writer: Writer): Promise<void> {
  writer.process.kill('SIGKILL')
  await writer.exited
}

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'lend-embedded-'))
})
afterEach(async () => {
  for (const child of running) child.kill('SIGKILL')
  while (running.size > 0) await new Promise((resolve) => setTimeout(resolve, 10))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const lockFile = () => join(folder, 'database.lock')

describe('kill -9 in the middle of writing', () => {
  test('loses nothing that was committed, and the chains verify', async () => {
    const committed: string[] = []
    for (const writes of [3, 25, 9]) {
      const writer = startWriter(folder)
      await writer.said(1 + writes)
      // Somewhere inside the next writes.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
      await killed(writer)
      expect(writer.lines[0]).toBe('open')
      committed.push(...writer.lines.slice(1))
      expect(existsSync(lockFile())).toBe(true)
    }
    const db = await openEmbedded(folder)
    const sessions = await runOn(db)<{ id: string }>(
      `select id from session where status = 'ended'`,
    )
    const there = new Set(sessions.map((row) => row.id))
    expect(committed.filter((id) => !there.has(id))).toEqual([])
    expect(committed.length).toBeGreaterThanOrEqual(37)
    await expectSound(runOn(db))
    await db.close()
    expect(existsSync(lockFile())).toBe(false)
  }, 120_000)
})

describe('the folder of the embedded database', () => {
  test('is refused to a second process, which names the first, and the first goes on', async () => {
    const first = startWriter(folder)
    await first.said(2)
    const second = startWriter(folder)
    expect(await second.exited).toBe(3)
    expect(second.lines).toEqual([
      `LEND_DATA is in use by the running server with process id ${first.process.pid}: stop it, or choose another folder`,
    ])
    await expect(openEmbedded(folder)).rejects.toThrow(`process id ${first.process.pid}`)
    const before = first.lines.length
    await first.said(before + 2)
    expect(first.lines.length).toBeGreaterThan(before)
    await killed(first)
  }, 60_000)

  test('is refused to the same process twice: two databases on one folder part ways', async () => {
    const db = await openEmbedded(folder)
    await expect(openEmbedded(folder)).rejects.toThrow(`process id ${process.pid}`)
    expect(readFileSync(lockFile(), 'utf8')).toBe(`${process.pid}\n`)
    await db.close()
    const again = await openEmbedded(folder)
    await again.close()
  }, 60_000)

  test('is taken over from a process that is gone', async () => {
    const gone = spawn(process.execPath, ['--eval', ''])
    await once(gone, 'close')
    writeFileSync(lockFile(), `${gone.pid}\n`)
    const db = await openEmbedded(folder)
    expect(readFileSync(lockFile(), 'utf8')).toBe(`${process.pid}\n`)
    await db.close()
    expect(existsSync(lockFile())).toBe(false)
  }, 60_000)

  test('is taken over from a life of this process id before, as in a container', async () => {
    writeFileSync(lockFile(), `${process.pid}\n`)
    const db = await openEmbedded(folder)
    await db.close()
    expect(existsSync(lockFile())).toBe(false)
  }, 60_000)

  test('goes to one of three processes that find a stale lock at once', async () => {
    writeFileSync(lockFile(), '4194304\n')
    const writers = [startWriter(folder), startWriter(folder), startWriter(folder)]
    await Promise.all(writers.map((writer) => writer.said(1)))
    const first = writers.map((writer) => writer.lines[0] ?? 'said nothing')
    expect(first.filter((line) => line === 'open')).toHaveLength(1)
    expect(first.filter((line) => line.startsWith('LEND_DATA is in use'))).toHaveLength(2)
  }, 60_000)
})
