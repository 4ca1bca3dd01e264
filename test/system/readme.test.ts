import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cleanEnv, freePort, root, type Server, startServer, whenReady } from './support/server.ts'

const run = promisify(execFile)
const readme = readFileSync(join(root, 'README.md'), 'utf8')

describe('the README', () => {
  let server: Server
  let settings: Record<string, string>

  beforeAll(async () => {
    const port = await freePort()
    settings = { PORT: String(port), LEND_DATA: 'memory' }
    server = startServer(settings)
    await whenReady(port, server)
  })
  afterAll(async () => {
    server.child.kill('SIGTERM')
    await server.exit
  })

  it('gives the two commands in exactly these words', () => {
    expect(readme).toContain('\nnpm ci && npm start\n')
    expect(readme).toContain('\nnpm ci && npm test\n')
  })

  it('has a walkthrough that works when pasted', async () => {
    const block = /```sh\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
    const { stdout } = await run('bash', ['-euc', block], { cwd: root, env: cleanEnv(settings) })
    const lines = stdout.trim().split('\n')
    expect(lines[0]).toBe('[]')
    expect(stdout).toContain('"outcome":"pending"')
    expect(stdout).toContain('"status":"settled"')
    const held: { permission: string; identifier?: string }[] = JSON.parse(lines.at(-1) ?? '')
    expect(held.map((g) => g.permission).sort()).toEqual(['accounts:read', 'dashboard:view'])
  })
})
