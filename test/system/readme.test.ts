import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cleanEnv, freePort, root, type Server, startServer, whenReady } from './support/server.ts'

const run = promisify(execFile)
const readme = readFileSync(join(root, 'README.md'), 'utf8')

describe('the README', () => {
  let server: Server
  let settings: Record<string, string>
  let data: string

  beforeAll(async () => {
    const port = await freePort()
    data = mkdtempSync(join(tmpdir(), 'lend-test-'))
    settings = { PORT: String(port), LEND_DATA: data }
    server = startServer(settings)
    await whenReady(port, server)
  })
  afterAll(async () => {
    server.child.kill('SIGTERM')
    await server.exit
    rmSync(data, { recursive: true, force: true })
  })

  it('gives the two commands in exactly these words', () => {
    expect(readme).toContain('\nnpm ci && npm start\n')
    expect(readme).toContain('\nnpm ci && npm test\n')
  })

  const pasted = async (n: number) => {
    const block = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)][n]?.[1] ?? 'false'
    const { stdout } = await run('bash', ['-euc', block], { cwd: root, env: cleanEnv(settings) })
    return stdout
  }

  it('has a backup and a restore that work when pasted', async () => {
    const said = await pasted(1)
    expect(said).toContain('allow rules wait until their user has looked')
    expect(said).toMatch(/acme:\nok: \d+ records/)
  })

  it('has a walkthrough that works when pasted', async () => {
    const stdout = await pasted(0)
    const lines = stdout.trim().split('\n')
    expect(lines[0]).toBe('[]')
    expect(stdout).toContain('"outcome":"pending"')
    expect(stdout).toContain('"status":"settled"')
    const held: { permission: string; identifier?: string }[] = JSON.parse(lines.at(-1) ?? '')
    expect(held.map((g) => g.permission).sort()).toEqual(['accounts:read', 'dashboard:view'])
  })
})
