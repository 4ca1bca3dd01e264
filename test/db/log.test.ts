import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { type Db, withTx } from '../../src/db/tx.ts'
import { createLog } from '../../src/log.ts'
import { eachDatabase } from '../support/databases.ts'

const CANARY = 'canary-7f3a-secret'

async function logged(run: () => Promise<unknown>): Promise<string> {
  let text = ''
  const log = createLog('info', { write: (line) => (text += line) })
  await run().catch((err: unknown) => log.error({ err }, 'bug'))
  return text
}

eachDatabase('what a log says of a failed statement', (database) => {
  const db = (): Db => database().db

  it('I18: never what was in it, by either way of asking', async () => {
    const raw = await logged(() =>
      withTx(db(), 'canary', (tx) => tx.sql`insert into nowhere values (${CANARY})`),
    )
    const orm = await logged(() =>
      withTx(db(), 'canary', (tx) => tx.orm.execute(sql`insert into nowhere values (${CANARY})`)),
    )
    for (const text of [raw, orm]) {
      expect(text).toContain('"flow":"canary"')
      expect(text).toContain('42P01')
      expect(text).not.toContain(CANARY)
    }
  })
})
