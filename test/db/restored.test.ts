import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { beforeAll, describe, expect, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { movedHeads } from '../../src/db/checkpoints.ts'
import { openEmbedded, openServer } from '../../src/db/open.ts'
import { restoreServer } from '../../src/db/restore.ts'
import { withTx } from '../../src/db/tx.ts'
import { afterRestore } from '../../src/flows/after-restore.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { createFollower } from '../../src/gateway/follow.ts'
import { createRevocations } from '../../src/gateway/revocations.ts'
import type { Ctx } from '../../src/ports.ts'
import { eachDatabase, refusal } from '../support/databases.ts'
import { postgresIsLeftOut, scratchDatabase, urlOf } from '../support/postgres.ts'
import { ACME, advance, ctxOf, recorded, tampering } from './support/chain.ts'

eachDatabase('a database that came back from a backup', (database) => {
  let ctx: Ctx
  beforeAll(() => {
    ctx = ctxOf(database())
  })
  const restoredNow = () => afterRestore(ctx, { backupAt: ctx.clock.now() - 3_600_000 })
  const followed = () => {
    const revocations = createRevocations()
    const nothing = () => {}
    const of = { ctx, revocations, onPerson: nothing, onMetadata: nothing, onResync: nothing }
    return { revocations, follower: createFollower(of) }
  }
  const tokenOf = (sid: string, issuedAt: number) => ({
    ...{ tenantId: ACME, sid, issuedAt, version: 1 },
    ...{ userId: 'usr_1', agentId: 'agt_1', templates: [] },
  })

  test('ends what lived, each on its chain, which stays whole', async () => {
    const { run } = database()
    const session = await recorded(ctx, run)
    expect((await restoredNow()).sessions).toBe(1)
    const [row] = await run('select status, end_reason from session where id = $1', [session])
    expect(row).toEqual({ status: 'revoked', end_reason: 'admin' })
    const [last] = await run(
      `select type, data ->> 'reason' as reason from activity where chain = $1 order by seq desc limit 1`,
      [session],
    )
    expect(last).toEqual({ type: 'session.ended', reason: 'admin' })
    expect((await verifyActivity(ctx, { tenantId: ACME })).problems).toEqual([])
    const [told] = await run<{ at: string }>(
      `select data ->> 'backup_at' as at from activity where data ->> 'what' = 'database.restored'`,
    )
    expect(Date.parse(told?.at ?? '')).toBe(ctx.clock.now() - 3_600_000)
  })

  test('from a server that had counted further: what is old is settled, what is new comes after it', async () => {
    const { run, db } = database()
    const old = await recorded(ctx, run)
    await tampering(run, 'update activity set xid = (1000000000000 + n)::text::xid8')
    await restoredNow()
    expect(await run('select n from activity where xid >= settled_before()')).toEqual([])
    const next = await recorded(ctx, run)
    const inCommitOrder = await run<{ chain: string; seq: number }>(
      'select chain, seq from activity where chain in ($1, $2) order by xid, n',
      [old, next],
    )
    const chains = inCommitOrder.map(({ chain }) => chain)
    expect(chains.lastIndexOf(old)).toBeLessThan(chains.indexOf(next))
    // The last checkpoint's place is the other server's too: nothing may go unanchored for it.
    const { heads } = await withTx(db, 'test', (tx) =>
      movedHeads(tx, { upto: '1000000000000', since: 0 }),
    )
    expect(heads.map(({ chain }) => chain)).toEqual(expect.arrayContaining([old, next]))
    expect(await refusal(run, 'update activity set seq = seq where false')).toBeNull()
    expect(await refusal(run, 'update activity set type = type')).toBe('activity_is_append_only')
  })

  test('an instance that lived through it reads everything anew, and lets no older token through', async () => {
    const { run } = database()
    // Past the restores above.
    advance(5)
    const { follower, revocations } = followed()
    const session = await recorded(ctx, run)
    await follower.catchUp()
    const issuedAt = Math.floor(ctx.clock.now() / 1000)
    expect(revocations.whyDead(tokenOf(session, issuedAt))).toBeNull()
    advance(5)
    await restoredNow()
    advance(5)
    await follower.catchUp()
    expect(follower.resyncs()).toBe(1)
    // Its own, and one of a session that the backup did not know.
    expect(revocations.whyDead(tokenOf(session, issuedAt))).toBe('over')
    expect(revocations.whyDead(tokenOf('ses_unknown', issuedAt))).toBe('over')
    const after = Math.floor(ctx.clock.now() / 1000)
    expect(revocations.whyDead(tokenOf('ses_new', after))).toBeNull()
    await follower.catchUp()
    expect(follower.resyncs()).toBe(1)
  })
})

describe('a restore that was killed', () => {
  test('is no folder that a server starts on, and the doctor says so', async () => {
    const data = mkdtempSync(join(tmpdir(), 'lend-restore-'))
    mkdirSync(join(data, 'restoring'))
    await expect(openEmbedded(data)).rejects.toThrow(/LEND_DATA holds a restore that was not/)
    expect(existsSync(join(data, 'database'))).toBe(false)
    expect(readdirSync(data)).toEqual(['restoring'])
    let text = ''
    const env = { LEND_DATA: data, PORT: '1', PUBLIC_URL: 'http://127.0.0.1:1' }
    expect(await doctor(env, (line) => (text += line), { json: false })).toBe(1)
    expect(text).toContain('holds a restore that was not finished')
    rmSync(data, { recursive: true })
  })

  test.skipIf(postgresIsLeftOut)(
    'is no database that a server starts on; one that failed leaves it empty',
    async () => {
      const { drop, url: template } = await scratchDatabase()
      const name = `${new URL(template).pathname.slice(1)}_empty`
      const sql = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} })
      await sql.unsafe(`create database ${name}`)
      const url = urlOf(name)
      const fails = () => Promise.reject(new Error('the disk is full'))
      await expect(restoreServer(url, fails)).rejects.toThrow('the disk is full')
      // As empty as before, so it can be tried again.
      await expect(restoreServer(url, fails)).rejects.toThrow('the disk is full')
      const one = postgres(url, { max: 1, onnotice: () => {} })
      await one`create schema lend_restoring`
      await expect(openServer(url)).rejects.toThrow(/DATABASE_URL holds a restore that was not/)
      await expect(restoreServer(url, fails)).rejects.toThrow('not finished')
      await one`drop schema lend_restoring`
      await (await openServer(url)).close()
      await expect(restoreServer(url, fails)).rejects.toThrow('is not empty')
      await one.end()
      await sql.unsafe(`drop database ${name} with (force)`)
      await sql.end()
      await drop()
    },
  )
})
