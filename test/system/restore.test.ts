import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, describe, expect, it } from 'vitest'
import { createEnforcer, type Enforcer } from '../../src/enforce/index.ts'
import { thumbprintOf } from '../../src/flows/checkpoint.ts'
import { postgresIsLeftOut, urlOf } from '../support/postgres.ts'
import { lend, type Visitor, visit } from './support/outside.ts'
import { freePort, type Settings, startServer, whenReady } from './support/server.ts'

/** The machine is lost: work, back up while it runs, lose everything, restore, go on (I19). */

const READ = { permission: 'accounts:read' }
const MAIL = { permission: 'email:send', resource: 'domain/customer.example' }
const hasPgDump = spawnSync('pg_dump', ['--version']).status === 0

type Kind = {
  readonly name: string
  /** An empty place to live in. */
  readonly place: (name: string) => Promise<Settings>
  readonly lose: (settings: Settings) => Promise<void>
}

const onServer = async (statement: (sql: postgres.Sql) => Promise<unknown>) => {
  const sql = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} })
  await statement(sql).finally(() => sql.end())
}

function suite({ place, lose }: Kind) {
  let port: number
  let home: string
  let file: string
  let first: Settings
  let second: Settings
  let before: Visitor
  let after: Visitor
  let enforcer: Enforcer
  let running: ReturnType<typeof startServer>
  const held: Record<'control' | 'refresh' | 'accounts' | 'session', string>[] = []
  let lateCursor = ''
  let keys: unknown
  let restored = ''
  let checkpointKey = ''

  const lent = async (by: Visitor, decision = 'allow_once') => {
    const started = await by.start()
    const asked = await by.ask(started.control, [READ, MAIL])
    if (asked.request_id !== undefined) await by.answer(asked.request_id, decision)
    const control = (await by.reissue(started.refresh)).token
    return { ...started, control, accounts: await by.accounts(control), asked }
  }

  it('works, is backed up while it runs, is lost, and is brought back', async () => {
    port = await freePort()
    home = mkdtempSync(join(tmpdir(), 'lend-test-'))
    file = join(home, 'lend.tar')
    const common = { PORT: String(port) }
    first = { ...common, ...(await place(join(home, 'first'))) }
    running = startServer(first)
    await whenReady(port, running)
    before = await visit(first)
    enforcer = createEnforcer({
      issuer: before.issuer,
      audience: `${new URL(before.issuer).origin}/demo/accounts`,
      introspect: { clientId: before.point.client_id, clientSecret: before.point.client_secret },
      follow: { closedAfterMillis: 600_000 },
    })
    const known = await lent(before, 'allow_always')
    expect(await before.mail(known.control)).toBe(true)
    keys = await before.jwks()
    checkpointKey = readFileSync(join(first.LEND_DATA ?? '', 'checkpoint-key.json'), 'utf8')

    const backup = await lend(first, 'backup', file)
    expect(backup).toMatchObject({ code: 0, err: '' })

    // What the backup does not know: a session that began, one that ended, a rule that its user took away.
    const late = await lent(before)
    expect(late.asked.items.map(({ reason }) => reason)).toEqual(['allow_rule', 'allow_rule'])
    held.push(known, late)
    for (const { accounts } of held) {
      await expect.poll(() => before.atTheProxy(accounts), { timeout: 5000 }).toBe('allowed')
      expect((await enforcer.check(accounts, READ)).reason).toBe('granted')
    }
    await before.api('POST', `/sessions/${late.session}/end`, {})
    const rules = await before.api<{ items: { id: string }[] }>('GET', '/rules')
    for (const { id } of rules.body.items) await before.api('DELETE', `/rules/${id}`)
    lateCursor = (await before.feed(null)).cursor
    running.child.kill('SIGKILL')
    await running.exit
    await lose(first)

    second = { ...common, ...(await place(join(home, 'second'))) }
    const done = await lend(second, 'restore', file)
    expect(done).toMatchObject({ code: 0, err: '' })
    restored = done.out
    running = startServer(second)
    await whenReady(port, running)
    after = await visit(second)
  }, 120_000)
  afterAll(async () => {
    await enforcer?.close()
    running?.child.kill('SIGKILL')
    await running?.exit
    for (const settings of [first, second]) if (settings !== undefined) await lose(settings)
    rmSync(home, { recursive: true, force: true })
  })

  it('tells the operator what was done and what is gone', () => {
    expect(restored).toContain('ended 1 sessions')
    expect(restored).toContain('2 allow rules wait')
    expect(restored).toMatch(/what was changed after 20\d\d-\S+Z is gone: look again at\n +freezes/)
    expect(restored).toMatch(/^([1-9]\d*) of \1 sealed keys and secrets open$/m)
    expect(restored).toMatch(/acme:\nok: \d+ records/)
  })

  it('keeps the backup and its keys to its owner', () => {
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const key = join(second.LEND_DATA ?? '', 'checkpoint-key.json')
    expect(readFileSync(key, 'utf8')).toBe(checkpointKey)
    expect(statSync(key).mode & 0o777).toBe(0o600)
  })

  it('has the same signing keys', async () => {
    expect(await after.jwks()).toEqual(keys)
  })

  it('refuses every token from before, of sessions that it knows and of those it does not', async () => {
    for (const { control, refresh, accounts } of held) {
      expect(await after.mcpStatus(control)).toBe(401)
      expect((await after.reissue(refresh)).body).toMatchObject({ error: 'invalid_grant' })
      expect(await after.atTheProxy(accounts)).toBe('SESSION_ENDED')
    }
    const [known, late] = held.map(({ session }) => `/sessions/${session}`)
    const ended = { status: 'revoked', end_reason: 'admin' }
    expect((await after.api('GET', known ?? '')).body).toMatchObject(ended)
    expect((await after.api('GET', late ?? '')).status).toBe(404)
  })

  it('tells who follows the feed that it went back', async () => {
    const heard = await after.feed(lateCursor)
    expect(heard).toMatchObject({ reset: true, good_after: expect.any(Number) })
    expect(await after.feed(heard.cursor)).toMatchObject({ reset: false })
    // One that lived through it, with everything it had heard before.
    for (const { accounts } of held)
      await expect
        .poll(async () => (await enforcer.check(accounts, READ)).reason, { timeout: 15_000 })
        .toBe('session_over')
  })

  it('starts sessions, and asks again what a rule of before would have answered', async () => {
    const started = await after.start()
    const asked = await after.ask(started.control, [READ, MAIL])
    expect(asked.items.map(({ outcome, reason }) => [outcome, reason])).toEqual([
      ['pending', 'reconsent'],
      ['pending', 'reconsent'],
    ])
    await after.answer(asked.request_id, 'allow_once')
    const control = (await after.reissue(started.refresh)).token
    const accounts = await after.accounts(control)
    await expect.poll(() => after.atTheProxy(accounts), { timeout: 5000 }).toBe('allowed')
    expect((await enforcer.check(accounts, READ)).reason).toBe('granted')
    expect(await after.mail(control)).toBe(true)
    type Changes = { items: { template: string; to_version: number; suspended_rules: number }[] }
    const { body } = await after.api<Changes>('GET', '/template-changes')
    expect(body.items).toMatchObject([{ template: 'renewal-briefs', suspended_rules: 2 }])
    // Once they have looked, their rules count again.
    const { to_version: version } = body.items[0] ?? {}
    await after.api('POST', '/template-changes/renewal-briefs/confirm', { version })
    const next = await lent(after)
    expect(next.asked.items.map(({ reason }) => reason)).toEqual(['allow_rule', 'allow_rule'])
  })

  it('has a record that is whole, by the same checkpoint key', async () => {
    running.child.kill('SIGTERM')
    expect(await running.exit).toBe(0)
    const thumbprint = await thumbprintOf(JSON.parse(checkpointKey))
    const verified = await lend(second, 'verify-activity', '--trusted', thumbprint)
    expect(verified).toMatchObject({ code: 0, err: '' })
    expect(verified.out).toContain(`signed with key ${thumbprint}`)
    expect(verified.out).not.toContain('NOT ok')
  })

  it('restores over nothing, and nothing that is damaged', async () => {
    const again = await lend(second, 'restore', file)
    expect(again).toMatchObject({ code: 1, out: '' })
    expect(again.err).toMatch(/is not empty|is another key/)
    const third: Settings = { PORT: String(port), ...(await place(join(home, 'third'))) }
    const bytes = readFileSync(file)
    const broken = join(home, 'broken.tar')
    // In the middle of the database, and cut off.
    const flipped = Buffer.from(bytes)
    flipped[Math.floor(bytes.length / 2)] = (flipped[Math.floor(bytes.length / 2)] ?? 0) ^ 1
    for (const content of [flipped, bytes.subarray(0, Math.floor(bytes.length / 2))]) {
      writeFileSync(broken, content)
      const refused = await lend(third, 'restore', broken)
      expect(refused).toMatchObject({ code: 1, out: '' })
      expect(refused.err).toContain('damaged')
      expect(existsSync(join(third.LEND_DATA ?? '', 'checkpoint-key.json'))).toBe(false)
    }
    await lose(third)
  })
}

describe(
  'the embedded database is lost',
  () =>
    suite({
      name: 'embedded',
      place: async (folder) => ({ LEND_DATA: folder }),
      lose: async ({ LEND_DATA = '' }) => rmSync(LEND_DATA, { recursive: true, force: true }),
    }),
  120_000,
)

describe.skipIf(postgresIsLeftOut || !hasPgDump)(
  'the Postgres server’s database is lost',
  () =>
    suite({
      name: 'server',
      place: async (folder) => {
        const name = `lend_test_restore_${process.pid}_${Date.now().toString(36)}`
        await onServer((sql) => sql.unsafe(`create database ${name}`))
        return { LEND_DATA: folder, DATABASE_URL: urlOf(name) }
      },
      lose: async ({ LEND_DATA = '', DATABASE_URL = '' }) => {
        rmSync(LEND_DATA, { recursive: true, force: true })
        const name = new URL(DATABASE_URL).pathname.slice(1)
        await onServer((sql) => sql.unsafe(`drop database if exists ${name} with (force)`))
      },
    }),
  120_000,
)
