import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../system/support/server.ts'
import { CHROMIUM } from './chromium.ts'

/** Before the browser suite: the built server and a Chromium are there, or one sentence says what is missing. */
export default function setup(): void {
  for (const file of ['dist/src/main.js', 'dist/web/index.html'])
    if (!existsSync(join(root, file)))
      throw new Error(`The browser suite runs the built server: run \`npm run build\` first.`)
  if (existsSync(CHROMIUM)) return
  const canInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version')
  if (canInstall && process.env.LEND_CHROMIUM === undefined) {
    const install = (...args: string[]) =>
      spawnSync('apt-get', args, {
        stdio: 'inherit',
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      })
    if (install('install', '-y', 'chromium').status !== 0) {
      install('update')
      install('install', '-y', 'chromium')
    }
    if (existsSync(CHROMIUM)) return
  }
  throw new Error(
    `The browser suite needs Chromium and found none at ${CHROMIUM}: install it (Debian: apt-get install chromium) or name one in LEND_CHROMIUM.`,
  )
}
