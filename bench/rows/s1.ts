import type { Options } from '../options.ts'
import { settle } from '../support/database.ts'
import { drive } from '../support/drive.ts'
import type { Row } from '../support/rounds.ts'
import { type Spent, spentOn } from '../support/spent.ts'
import {
  addAllowRules,
  CONCURRENCY,
  reissue,
  requestAccess,
  type Session,
  type World,
  withWorld,
} from '../support/world.ts'
import { allGranted } from './held.ts'

const GRANTS = [1, 10, 100]
const ITEMS_A_REQUEST = 10
const HOLDERS = 20
const FEW = 10_000
const MANY = 1_000_000
const AMONG_USERS = 50_000

/** Sessions that hold so many grants each, asked for as an agent asks. */
async function holding(world: World, grants: number): Promise<readonly Session[]> {
  const sessions = await world.startSessions(HOLDERS)
  for (let first = 0; first < grants; first += ITEMS_A_REQUEST) {
    const count = Math.min(ITEMS_A_REQUEST, grants - first)
    const items = Array.from({ length: count }, (_, i) => ({
      permission: 'dashboard:view',
      resource: `dashboard/board-${first + i}`,
    }))
    const asks = sessions.map((session) => requestAccess(session, items))
    await drive(world.lend.origin, CONCURRENCY, asks, allGranted)
    // The limit on a session's requests a minute is the product's: what was asked long ago no longer counts.
    await world.scratch
      .sql`update session set request_times = '{}' where user_id like 'usr_bench_%'`
  }
  return sessions
}

/** Live sessions of others, so many in all. */
async function crowd(world: World, live: number): Promise<void> {
  const { sql } = world.scratch
  await sql`
    insert into app_user (id, tenant_id, issuer, subject, login, name, attributes, created_at)
    select 'usr_crowd_' || n, t.id, 'https://crowd.example', 'crowd-' || n, 'crowd-' || n, 'Crowd ' || n, '{}', now()
    from tenant t, generate_series(1, ${AMONG_USERS}::int) n where t.slug = 'acme' on conflict do nothing`
  await sql`
    insert into session (id, tenant_id, root_id, depth, user_id, agent_id, template_id, template_version, mode,
      created_at, expires_at)
    select 'ses_crowd_' || n, u.tenant_id, 'ses_crowd_' || n, 0, u.id, a.id, t.id, 3, 'ask', now(), now() + interval '8 hours'
    from generate_series((select count(*) + 1 from session where id like 'ses_crowd_%'), ${live}::bigint) n
    join app_user u on u.id = 'usr_crowd_' || (1 + n % ${AMONG_USERS}::int)
    join template t on t.name = 'renewal-briefs'
    join agent a on a.tenant_id = u.tenant_id and t.id = any(a.template_ids)`
  await settle(sql)
}

const rowOf = (what: string, spent: Spent): Row => ({
  ...{ row: 'S1', what, unit: 'ms', lend: spent.server / 1000, other: null, ratio: null },
  ...{ reach: 'flat in sessions, linear in grants', met: null },
  note: `database ${(spent.database / 1000).toFixed(2)} ms, WAL ${Math.round(spent.wal)} bytes a call`,
  rounds: [{ ...spent }],
})

/** S1: what a call costs as a session holds more, and as more sessions live. */
export async function s1(options: Options): Promise<readonly Row[]> {
  const count = options.quick ? 100 : 1_500
  const crowds = options.quick ? [100, 1_000] : [FEW, MANY]
  const sessions = 4 * count + 200
  return withWorld({ name: 's1', sessions, ...options.profiled }, async (world) => {
    await addAllowRules(world.scratch.sql)
    const again = (held: readonly Session[]) =>
      Array.from({ length: count }, (_, i) => reissue(world, held[i % held.length] as Session))
    const spentBy = async (calls: Parameters<typeof drive>[2]) => {
      await drive(world.lend.origin, CONCURRENCY, calls.slice(0, count / 5))
      const rest = calls.slice(count / 5)
      return spentOn(world, rest.length, () => drive(world.lend.origin, CONCURRENCY, rest))
    }
    const rows: Row[] = []
    for (const grants of GRANTS) {
      const held = await holding(world, grants)
      const kind = grants === 1 ? '1 grant' : `${grants} grants`
      rows.push(rowOf(`a re-issue with ${kind}: processor time`, await spentBy(again(held))))
    }
    const held = await holding(world, 1)
    for (const live of crowds) {
      await crowd(world, live)
      const among = `among ${live.toLocaleString('en')} live sessions`
      rows.push(rowOf(`a start ${among}`, await spentBy(world.starts(count))))
      rows.push(rowOf(`a re-issue with 1 grant ${among}`, await spentBy(again(held))))
    }
    return rows
  })
}
