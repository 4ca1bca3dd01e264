import type { SessionId } from '../../../src/core/vocabulary.ts'
import { openEmbedded } from '../../../src/db/open.ts'
import { endSession } from '../../../src/flows/end-session.ts'
import { requestAccess } from '../../../src/flows/request-access.ts'
import { runOn, seedDatabase } from '../../support/databases.ts'
import { agentOf, exchange, instance, must } from './callers.ts'

/**
 * A process that is killed in the middle: it opens the folder it is given, prints `open`, and then writes without end. It
 * prints the id of each session once what it did for it has been committed, and never before.
 */
const say = (line: string) => process.stdout.write(`${line}\n`)

const folder = process.argv[2] ?? ''
const db = await openEmbedded(folder).catch((error: unknown) => {
  say(error instanceof Error ? error.message : String(error))
  process.exit(3)
})
const [seeded] = await runOn(db)('select id from tenant limit 1')
if (seeded === undefined) await seedDatabase(db)
const ctx = instance(db)
say('open')
for (;;) {
  const session = must(await exchange(ctx)).sessionId as SessionId
  const items = [{ permission: 'accounts:read' }, { permission: 'billing:admin' }]
  must(await requestAccess(ctx, agentOf(session), { items, reason: 'to be interrupted' }))
  must(await endSession(ctx, agentOf(session), undefined))
  say(session)
}
