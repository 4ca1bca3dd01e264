import { expect, test } from 'vitest'
import { takeUserPermission } from '../../src/flows/admin/users.ts'
import { followFeed } from '../../src/flows/re-evaluate.ts'
import { openPostgres, runIn } from '../support/databases.ts'
import { scratchDatabase } from '../support/postgres.ts'
import { answer, asked, inTx, must, person, start, twoInstances } from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const Q3 = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

twoInstances('I19 a transaction left open in another database of the server', (pair) => {
  test('holds no revocation back', async () => {
    const { a, b, run } = pair()
    const neighbour = await scratchDatabase()
    const db = openPostgres(neighbour.url, 1)
    const session = await start(a)
    must(await answer(a, await asked(a, run, session, [Q3]), 'allow_once'))
    const held = () => run('select id from access_grant where session_id = $1', [session])
    await db.begin('left open', async (tx) => {
      await runIn(tx)('select pg_current_xact_id()')
      const of = { userId: 'usr_maya', id: 'prm_q3' }
      must(await inTx(b, (other) => takeUserPermission(b, person('adam'), of, other)))
      expect(await held()).toHaveLength(1)
      await followFeed(a)
      expect(await held()).toEqual([])
    })
    await db.close()
    await neighbour.drop()
    await expectSound(run)
  })
})
