import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { root } from './support/server.ts'

/** All of it, the screens that are fetched only when opened included. */
const BUNDLE_BYTES_MAX = 350_000

test('the page’s scripts and styles are under 350 kB, gzipped', () => {
  const folder = join(root, 'dist', 'web', 'assets')
  const files = readdirSync(folder).filter((file) => /\.(js|css)$/.test(file))
  const bytes = files.reduce(
    (sum, file) => sum + gzipSync(readFileSync(join(folder, file))).length,
    0,
  )
  expect(files.length).toBeGreaterThan(5)
  expect(bytes).toBeLessThan(BUNDLE_BYTES_MAX)
})
