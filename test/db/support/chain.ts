import { exportJWK, generateKeyPair, type JWK } from 'jose'
import type { SessionId, TenantId } from '../../../src/core/vocabulary.ts'
import { verifyActivity } from '../../../src/flows/verify-activity.ts'
import { systemIds } from '../../../src/ids.ts'
import type { Ctx } from '../../../src/ports.ts'
import { asAgent, ask, must, narrowed, start } from '../../race/support/instances.ts'
import type { Database, Run } from '../../support/databases.ts'
import { EPOCH } from '../../support/world-seed.ts'

/** For the tests that change the record behind the product's back. */
export const ACME = 'ten_acme' as TenantId
const READ = { permission: 'accounts:read' }
let now = Date.parse(EPOCH)

export const advance = (seconds: number): void => {
  now += seconds * 1000
}

export const ctxOf = ({ db }: Database): Ctx => ({
  db,
  clock: { now: () => now },
  ids: systemIds,
  notify: { kick: () => {}, subscribe: () => () => {} },
  publicUrl: 'http://localhost:4000',
})

export const newKey = async (): Promise<JWK> =>
  exportJWK((await generateKeyPair('ES256', { extractable: true })).privateKey)

/** Runs what only somebody with the database's own rights could, past the triggers that refuse it. */
export async function tampering(run: Run, sql: string): Promise<void> {
  for (const table of ['activity', 'session', 'activity_checkpoint'])
    await run(`alter table ${table} disable trigger user`)
  await run(sql)
  for (const table of ['activity', 'session', 'activity_checkpoint'])
    await run(`alter table ${table} enable trigger user`)
}

/** A session of six records: started, asked, two decisions, two grants. */
export async function recorded(ctx: Ctx, run: Run): Promise<SessionId> {
  const session = await start(ctx, { mode: 'bypass' })
  must(await ask(ctx, await asAgent(run, session), [READ, narrowed(1)]))
  return session
}

export const recordsOf = (run: Run, session: string) =>
  run<{ id: string; seq: number; type: string }>(
    'select id, seq, type from activity where chain = $1 order by seq',
    [session],
  )

export const problems = async (ctx: Ctx, session: string) =>
  (await verifyActivity(ctx, { tenantId: ACME, session })).problems.map((p) => [p.seq, p.problem])
