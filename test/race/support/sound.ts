import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { expect } from 'vitest'
import type { Run } from '../../support/databases.ts'

/**
 * What must be true of a database whatever raced in it. Asks the rows, with a hash of its own: nothing here comes from the
 * product.
 */
export async function expectSound(run: Run): Promise<void> {
  const broken: Record<string, unknown[]> = {
    ...(await brokenChains(run)),
    ...(await impossibleRows(run)),
    ...(await unrecorded(run)),
  }
  expect(Object.fromEntries(Object.entries(broken).filter(([, rows]) => rows.length > 0))).toEqual(
    {},
  )
}

type Stored = {
  id: string
  tenant_id: string
  chain: string
  seq: number
  at: number
  type: string
  agent_id: string | null
  user_id: string | null
  session_id: string | null
  root_session_id: string | null
  template: string | null
  data: unknown
  prev_hash: string
  hash: string
}

const hashOf = ({ chain: _, hash: __, at, ...members }: Stored): string => {
  const given = Object.entries(members).filter(([, value]) => value !== null)
  const record = { ...Object.fromEntries(given), at: new Date(at).toISOString() }
  return createHash('sha256')
    .update(String(canonicalize(record)))
    .digest('hex')
}

/** Every chain, a session's or a tenant's: from 1 without a gap, each record on the one before, the head where it says. */
export async function brokenChains(run: Run): Promise<Record<string, unknown[]>> {
  const records = await run<Stored>(
    `select id, tenant_id, chain, seq, (extract(epoch from at) * 1000)::float8 as at, type, agent_id,
       user_id, session_id, root_session_id, template, data, prev_hash, hash
     from activity order by chain, seq`,
  )
  const heads = await run<{ chain: string; seq: number; hash: string }>(
    `select id as chain, chain_seq as seq, chain_hash as hash from session
     union all select tenant_id, seq, hash from tenant_chain`,
  )
  const links: string[] = []
  const moved: string[] = []
  for (const head of heads) {
    let before = { seq: 0, hash: '' }
    for (const record of records.filter((one) => one.chain === head.chain)) {
      const follows = record.seq === before.seq + 1 && record.prev_hash === before.hash
      if (!follows || record.hash !== hashOf(record)) links.push(`${record.chain} ${record.seq}`)
      before = record
    }
    if (before.seq !== head.seq || before.hash !== head.hash) moved.push(head.chain)
  }
  const chains = new Set(heads.map((head) => head.chain))
  return {
    'chain links that do not hold': links,
    'heads that are elsewhere': moved,
    'records on no chain': records.filter((one) => !chains.has(one.chain)),
  }
}

const impossibleRows = async (run: Run): Promise<Record<string, unknown[]>> => ({
  'grants on sessions that are over (I5)': await run(
    `select g.id from access_grant g join session s on s.id = g.session_id where s.status <> 'active'`,
  ),
  'live sessions below a parent that is over (I11)': await run(
    `select c.id from session c join session p on p.id = c.parent_id
     where c.status = 'active' and p.status <> 'active'`,
  ),
  'questions open on sessions that are over': await run(
    `select i.id from request_item i join session s on s.id = i.session_id
     where i.outcome = 'pending' and s.status <> 'active'`,
  ),
  'requests whose status is not their items’': await run(
    `select q.id from access_request q where (q.status = 'pending') <> exists (
       select from request_item i where i.request_id = q.id and i.outcome = 'pending')`,
  ),
  'inherited grants that are not the parent’s (I9)': await run(
    `select g.id from access_grant g join session s on s.id = g.session_id
       join access_grant p on p.id = g.inherited_from
     where p.session_id <> s.parent_id or p.resource is distinct from g.resource
       or p.narrow is distinct from g.narrow`,
  ),
  'grants of what a person has denied': await run(
    `select g.id from access_grant g join session s on s.id = g.session_id
       join consent_rule r on r.user_id = s.user_id and r.template_id = s.template_id
     where r.effect = 'deny' and r.permission_id = g.permission_id and r.resource is not distinct from g.resource`,
  ),
})

/** I12: every change left its record, and none left two. */
const unrecorded = async (run: Run): Promise<Record<string, unknown[]>> => ({
  'grants that are not created minus ended': await run(
    `with made as (
       select data ->> 'grant_id' as id from activity where type = 'grant.created'
       except select data ->> 'grant_id' from activity where type = 'grant.ended')
     (select id from made except select id from access_grant)
     union all (select id from access_grant except select id from made)`,
  ),
  'grants that ended or began twice': await run(
    `select type, data ->> 'grant_id' as id from activity where type like 'grant.%'
     group by 1, 2 having count(*) > 1`,
  ),
  'prompts decided twice (I16)': await run(
    `select data ->> 'item_id' as id from activity where type = 'access.decided'
     group by 1 having count(*) > 1`,
  ),
  'prompts with an end and no record, or the reverse': await run(
    `(select id from request_item where outcome <> 'pending'
      except select data ->> 'item_id' from activity where type = 'access.decided')
     union all
     (select data ->> 'item_id' from activity where type = 'access.decided'
      except select id from request_item where outcome <> 'pending')`,
  ),
  'sessions that started or ended without one record of it': await run(
    `select s.id from session s
     where (select count(*) from activity a where a.session_id = s.id and a.type = 'session.started') <> 1
        or (select count(*) from activity a where a.session_id = s.id and a.type = 'session.ended')
           <> case when s.status = 'active' then 0 else 1 end`,
  ),
})
