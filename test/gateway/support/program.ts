import { type ChildProcess, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** A proxy of Debian's that the tests run: how it is brought, started and waited for. */
const TRIES = 400
const PAUSE_MILLIS = 25

/** The program is here, or is installed where that can be done, or one sentence says what is missing. */
export function requireProgram(of: {
  readonly command: readonly [string, ...string[]]
  readonly package: string
  readonly needs: string
}): void {
  const [command, ...args] = of.command
  const isThere = () => spawnSync(command, args).status === 0
  if (isThere()) return
  if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
    const apt = (...words: string[]) =>
      spawnSync('apt-get', words, { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } })
    const install = ['install', '-y', '--no-install-recommends', of.package]
    if (apt(...install).status !== 0) {
      apt('update')
      apt(...install)
    }
    if (isThere()) return
  }
  throw new Error(
    `These tests need ${of.needs}: install it (Debian: apt-get install ${of.package}).`,
  )
}

/** A reference configuration with another address in it; it must have had the one that is replaced. */
export function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the reference configuration has no ${from} any more`)
  return text.replaceAll(from, to)
}

/** Resolves once the program listens. `said`: what it wrote, for when it does not. */
export async function listens(
  port: number,
  child: ChildProcess,
  said: () => string,
): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    if (child.exitCode !== null) throw new Error(`the proxy did not start: ${said()}`)
    const open = await new Promise<boolean>((done) => {
      const socket = connect(port, '127.0.0.1', () => done(true))
      socket.on('error', () => done(false))
      socket.on('connect', () => socket.destroy())
    })
    if (open) return
    await pause(PAUSE_MILLIS)
  }
  throw new Error(`the proxy did not listen: ${said()}`)
}
