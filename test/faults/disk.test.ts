import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openVault } from '../../src/vault.ts'
import { expectSound } from '../race/support/sound.ts'
import { runOn } from '../support/databases.ts'
import { type Answer, type LiveServer, serveLend } from '../support/live-server.ts'

/** The embedded database on a disk of its own that fills up. The disk is a mount, which only the machine's superuser makes. */
const SIZE = '160m'
const READ = [{ permission: 'accounts:read' }]

function mounted(folder: string): boolean {
  const args = ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', folder]
  return spawnSync('mount', args).status === 0
}

const folder = mkdtempSync(join(tmpdir(), 'lend-disk-'))
const isMounted = mounted(folder)
if (!isMounted) rmdirSync(folder)

/** Takes every byte that is left. */
function fill(file: string): void {
  const ballast = openSync(file, 'w')
  try {
    for (const size of [1 << 20, 1 << 12, 1]) {
      const piece = Buffer.alloc(size)
      try {
        while (writeSync(ballast, piece) === size);
      } catch {
        // No room for another of this size.
      }
    }
  } finally {
    closeSync(ballast)
  }
}

describe.skipIf(!isMounted)(
  isMounted ? 'a disk that is full' : 'a disk that is full (left out: no disk can be mounted here)',
  () => {
    let lend: LiveServer
    // Its key lies on another disk.
    const vault = openVault({ secretKeys: null, dataDir: null, databaseUrl: null })
    beforeAll(async () => {
      lend = await serveLend({ folder, vault, jobs: false })
    })
    afterAll(async () => {
      await lend?.close()
      spawnSync('umount', [folder])
      rmdirSync(folder)
    })

    test('is an outage: nothing more is issued, and what was is there once there is room again', async () => {
      const session = await lend.start('maya')
      await lend.lend('maya', session.access_token, READ)
      const token = await lend.userToken('maya', 'app')
      const agent = await lend.agent()
      const start = () =>
        lend.token(
          {
            grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
            subject_token: token,
            subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
            template: 'renewal-briefs',
          },
          agent,
        )
      const ballast = join(folder, 'ballast')
      fill(ballast)
      const begun: string[] = []
      let refused: Answer | undefined
      // What the database has reserved is used up first.
      for (let n = 0; n < 3000 && refused === undefined; n++) {
        const answer = await start()
        if (answer.status !== 200) {
          if (answer.status !== 429) refused = answer
          else await lend.endSessions('maya')
          continue
        }
        begun.push(answer.body.session_id)
        await lend.oauth('revoke', { token: answer.body.refresh_token }, agent)
      }
      expect([refused?.status, refused?.headers.get('retry-after')]).toEqual([503, '2'])
      expect(refused?.text).toMatch(/temporarily_unavailable/)
      expect(refused?.text).not.toMatch(/\n\s+at |No space|ENOSPC|insert /)
      rmSync(ballast)
      await lend.close()
      lend = await serveLend({ folder, vault, jobs: false })
      const kept = await lend.rows<{ id: string }>('select id from session where id = any($1)', [
        begun,
      ])
      expect(new Set(kept.map(({ id }) => id))).toEqual(new Set(begun))
      await expectSound(runOn(lend.ctx.db))
      await lend.start('maya')
    })
  },
)
