import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { until } from '../mcp/support/until.ts'
import { lend } from './support/outside.ts'
import { freePort, type Settings, startServer, whenReady } from './support/server.ts'

/** A backup comes back where the key that sealed its keys is not: that is said, nothing is issued, and nothing is made anew. */
const home = mkdtempSync(join(tmpdir(), 'lend-test-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

const LEND_SECRET_KEYS = `a:${Buffer.alloc(32, 1).toString('base64url')}`

async function served(settings: Settings, port: number, body: () => Promise<void>) {
  const server = startServer(settings)
  try {
    await until(
      async () => (await fetch(`http://localhost:${port}/livez`).catch(() => null))?.status === 200,
      'it lives',
      60,
    )
    await body()
  } finally {
    server.child.kill('SIGKILL')
    await server.exit
  }
}

test('a restore without the key says so and what to do; with the key back all is well', async () => {
  const port = await freePort()
  const PORT = String(port)
  const file = join(home, 'lend.tar')
  const first: Settings = { PORT, LEND_DATA: join(home, 'first'), LEND_SECRET_KEYS }
  const server = startServer(first)
  const jwks = async () => (await fetch(`http://localhost:${port}/t/acme/oauth/jwks`)).json()
  try {
    await whenReady(port, server)
    const saved = await lend(first, 'backup', file)
    expect(saved.out).toContain('LEND_SECRET_KEYS is not in it')
  } finally {
    server.child.kill('SIGKILL')
    await server.exit
  }

  const back = { PORT, LEND_DATA: join(home, 'back') }
  const restored = await lend(back, 'restore', file)
  expect(restored.code).toBe(1)
  expect(restored.out).toMatch(/^0 of [1-9]\d* sealed keys and secrets open$/m)
  expect(restored.out).toMatch(/^ {2}signing_key \S+ opens with none of the keys$/m)
  expect(restored.out).toContain('put the keys that sealed them back into LEND_SECRET_KEYS')
  expect(restored.out).toContain('until then no instance is ready and no token is issued')
  expect(existsSync(join(back.LEND_DATA, 'secret-key.json'))).toBe(false)

  let keys: unknown
  await served(back, port, async () => {
    const ready = await fetch(`http://localhost:${port}/readyz`)
    expect([ready.status, await ready.json()]).toMatchObject([503, { status: 'keys_shut' }])
    keys = await jwks()
  })
  const mended = { ...back, LEND_SECRET_KEYS }
  const looked = await lend(back, 'doctor')
  expect(looked.out).toMatch(/^WRONG {2}signing keys: those of .* open with none of the keys/m)
  expect(looked.out).toContain('lend rotate-keys --now')
  const again = startServer(mended)
  try {
    await whenReady(port, again)
    expect(await jwks()).toEqual(keys)
  } finally {
    again.child.kill('SIGKILL')
    await again.exit
  }
}, 180_000)
