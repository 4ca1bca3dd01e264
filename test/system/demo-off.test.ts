import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort, startServer, whenReady } from './support/server.ts'

describe('a server that is not the demo', () => {
  let data: string
  beforeAll(() => {
    data = mkdtempSync(join(tmpdir(), 'lend-test-'))
  })
  afterAll(() => rmSync(data, { recursive: true, force: true }))

  it('starts empty and refuses demo sign-in', async () => {
    const port = await freePort()
    const server = startServer({ PORT: String(port), LEND_DATA: 'memory', LEND_DEMO: 'off' })
    await whenReady(port, server)
    for (const path of ['/t/acme/api/me', '/demo/idp/acme/.well-known/openid-configuration'])
      expect((await fetch(`http://localhost:${port}${path}`)).status).toBe(404)
    expect(await (await fetch(`http://localhost:${port}/web/config`)).json()).toEqual({
      demo: false,
    })
    server.child.kill('SIGTERM')
    expect(await server.exit).toBe(0)
  })

  it('never serves what was a demo, whose people anybody can be', async () => {
    const port = await freePort()
    const demo = startServer({ PORT: String(port), LEND_DATA: data })
    await whenReady(port, demo)
    demo.child.kill('SIGTERM')
    expect(await demo.exit).toBe(0)
    const off = startServer({ PORT: String(port), LEND_DATA: data, LEND_DEMO: 'off' })
    expect(await off.exit).toBe(2)
    expect(off.output()).toMatch(/^LEND_DEMO cannot be off/)
  })
})
