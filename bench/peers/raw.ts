import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import postgres from 'postgres'
import { serve, timed } from '../support/peer.ts'

/**
 * Floors: the same database work with nothing around it. The tables are Lend's own, with their constraints and indexes, in
 * the same scratch database.
 */
const sql = postgres(process.env.DATABASE_URL ?? '', { max: 20, onnotice: () => {} })
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })

type Target = { id: string; tenant_id: string; user_id: string; agent_id: string }
let targets: readonly Target[] = []
let turn = 0
/** Beyond what Lend's own records in the same chain will reach. */
const FAR = 1_000_000
const next = (): Target => {
  const target = targets[turn++ % targets.length]
  if (target === undefined) throw new Error('there are no sessions')
  return target
}

const records = (session: Target, first: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    id: `act_${randomUUID()}`,
    tenant_id: session.tenant_id,
    chain: session.id,
    seq: first + i,
    at: new Date().toISOString(),
    type: 'access.decided',
    agent_id: session.agent_id,
    user_id: session.user_id,
    session_id: session.id,
    root_session_id: session.id,
    template: 'renewal-briefs@3',
    data: { request_id: `req_${randomUUID()}`, outcome: 'granted', reason: 'allow_rule' },
    prev_hash: '0'.repeat(64),
    hash: '1'.repeat(64),
  }))

const insertRecords = (tx: postgres.Sql, rows: readonly object[]) => tx`
  insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id,
    template, data, prev_hash, hash)
  select id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id, template, data,
    prev_hash, hash
  from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as r (id text, tenant_id text, chain text,
    seq integer, at timestamptz, type text, agent_id text, user_id text, session_id text,
    root_session_id text, template text, data jsonb, prev_hash text, hash text)`

const ITEMS = [
  { permission: 'accounts:read', resource: null },
  { permission: 'accounts.rows:my_region', resource: null },
  { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
]

/** T3: what `iam.request_access` with three items granted by rule writes, in one transaction, sent together. */
async function insertAll(session: Target): Promise<void> {
  const request = `req_${randomUUID()}`
  const items = ITEMS.map((item, position) => ({ id: `itm_${randomUUID()}`, position, ...item }))
  const grants = ITEMS.map((item, i) => ({
    id: `grt_${randomUUID()}`,
    rule_id: `rul_${session.user_id}_${i + 1}`,
    ...item,
  }))
  await sql.begin(async (begun) => {
    const tx = begun as unknown as postgres.Sql
    await Promise.all([
      tx`update session set request_times = array_append(request_times, extract(epoch from now())::float8)
        where id = ${session.id}`,
      tx`insert into access_request (id, tenant_id, session_id, root_id, user_id, reason, digest, status,
          created_at, expires_at, settled_at)
        values (${request}, ${session.tenant_id}, ${session.id}, ${session.id}, ${session.user_id},
          'To prepare the renewal briefs of this quarter', 'digest', 'settled', now(), now(), now())`,
      tx`insert into request_item (id, request_id, session_id, position, permission_id, resource, sensitive,
          outcome, decision_reason, rule_id, decided_at)
        select id, ${request}, ${session.id}, position, permission, resource, false, 'granted', 'allow_rule',
          'rul_x', now()
        from jsonb_to_recordset(${JSON.stringify(items)}::text::jsonb)
          as r (id text, position integer, permission text, resource text)`,
      tx`insert into access_grant (id, tenant_id, session_id, permission_id, resource, source, sensitive, rule_id,
          request_id, created_at)
        select id, ${session.tenant_id}, ${session.id}, permission, resource, 'rule', false, rule_id,
          ${request}, now()
        from jsonb_to_recordset(${JSON.stringify(grants)}::text::jsonb)
          as r (id text, permission text, resource text, rule_id text)`,
      insertRecords(tx, records(session, 3, 7)),
      tx`update session set chain_seq = 9, chain_hash = ${'1'.repeat(64)} where id = ${session.id}`,
    ])
  })
}

/** T2: as many waits for the database as a re-issue of Lend has, one durable commit among them, and one signature. */
async function reissue(roundTrips: number): Promise<string> {
  const session = next()
  const writing = 3
  for (let i = writing; i < roundTrips; i++)
    await sql`select id, status from session where id = ${session.id}`
  await sql.begin(async (begun) => {
    await insertRecords(begun as unknown as postgres.Sql, [
      { ...records(session, 0, 1)[0], chain: session.id, seq: FAR + turn },
    ])
  })
  const signature = sign('sha256', Buffer.from(session.id), {
    key: privateKey,
    dsaEncoding: 'ieee-p1363',
  })
  return JSON.stringify({ session: session.id, signature: signature.toString('base64url') })
}

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  for await (const _ of req);
  const [, what, amount] = (req.url ?? '').split('/')
  if (what === 'reissue') return void res.end(await reissue(Number(amount)))
  // G5's floor: one row by its key.
  if (what === 'select') {
    const { id } = next()
    const [row] = await sql`
      select id, status, user_id, version, expires_at from session where id = ${id}`
    return void res.end(JSON.stringify(row))
  }
  // T4's floor: one round trip that commits, and one that does nothing.
  if (what === 'commit') await sql`insert into bench_commit (at) values (now())`
  res.end()
}

const server = createServer((req, res) => {
  answer(req, res).catch((error: unknown) => {
    res.statusCode = 500
    res.end(String(error))
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  serve({ port: typeof address === 'object' && address ? address.port : 0 }, async (message) => {
    if (message.sessions === 'load') {
      targets = await sql<Target[]>`
        select id, tenant_id, user_id, agent_id from session
        where status = 'active' and user_id like 'usr_bench_%' order by id`
      return { loaded: targets.length }
    }
    const count = Math.min(Number(message.inserts), targets.length)
    const seconds = await timed(count, Number(message.width), (i) =>
      insertAll(targets[i] ?? next()),
    )
    return { perSecond: count / seconds }
  })
})
