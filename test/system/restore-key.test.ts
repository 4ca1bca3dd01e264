import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { until } from '../mcp/support/until.ts'
import { lend } from './support/outside.ts'
import { freePort, type Settings, startServer } from './support/server.ts'

/** A backup comes back where the key that sealed its keys is not: that is said, nothing is issued, and nothing is made anew. */
const home = mkdtempSync(join(tmpdir(), 'lend-test-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

const LEND_SECRET_KEYS = `a:${Buffer.alloc(32, 1).toString('base64url')}`

/** The server with these settings, until `body` is done. It lives, whether or not it is ready. */
async function served(settings: Settings, body: (url: string) => Promise<void>) {
  const server = startServer(settings)
  const url = `http://localhost:${settings.PORT}`
  const lives = async () => (await fetch(`${url}/livez`).catch(() => null))?.status === 200
  try {
    await until(lives, 'it lives', 120)
    await body(url)
  } finally {
    server.child.kill('SIGKILL')
    await server.exit
  }
}
const readiness = async (url: string) => {
  const answer = await fetch(`${url}/readyz`)
  return [answer.status, await answer.json()]
}
const jwks = async (url: string) => (await fetch(`${url}/t/acme/oauth/jwks`)).json()

test('a restore without the key says so and what to do; with the key back all is well', async () => {
  const PORT = String(await freePort())
  const file = join(home, 'lend.tar')
  const first: Settings = { PORT, LEND_DATA: join(home, 'first'), LEND_SECRET_KEYS }
  let keys: unknown
  await served(first, async (url) => {
    keys = await jwks(url)
    const saved = await lend(first, 'backup', file)
    expect(saved.out).toContain('LEND_SECRET_KEYS is not in it')
  })

  const back = { PORT, LEND_DATA: join(home, 'back') }
  const restored = await lend(back, 'restore', file)
  expect(restored.code).toBe(1)
  expect(restored.out).toMatch(/^0 of [1-9]\d* sealed keys and secrets open$/m)
  expect(restored.out).toMatch(/^ {2}signing_key \S+ opens with none of the keys$/m)
  expect(restored.out).toContain('put the keys that sealed them back into LEND_SECRET_KEYS')
  expect(restored.out).toContain('until then no instance is ready and no token is issued')
  expect(existsSync(join(back.LEND_DATA, 'secret-key.json'))).toBe(false)

  await served(back, async (url) => {
    expect(await readiness(url)).toMatchObject([503, { status: 'keys_shut' }])
    expect(await jwks(url)).toEqual(keys)
  })
  const looked = await lend(back, 'doctor')
  expect(looked.out).toMatch(/^WRONG {2}signing keys: those of .* open with none of the keys/m)
  expect(looked.out).toContain('lend rotate-keys --now')
  await served({ ...back, LEND_SECRET_KEYS }, async (url) => {
    const ready = async () => (await readiness(url))[0] === 200
    await until(ready, 'it is ready', 60)
    expect(await jwks(url)).toEqual(keys)
  })
}, 600_000)
