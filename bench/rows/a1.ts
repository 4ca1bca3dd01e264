import type postgres from 'postgres'
import type { Options } from '../options.ts'
import { drive } from '../support/drive.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import { type World, withWorld } from '../support/world.ts'

const FEW = 10_000
const MANY = 10_000_000
const A_SESSION = 10
const LOOKS = 200

/** The same id for the same number, in both databases. */
const idOf = 'md5(n::text)'

/**
 * A part of the record of its own, of a month long ago, filled before it has an index and then attached: as the records would lie
 * there had they come one by one, without waiting for each.
 */
async function fill(sql: postgres.Sql, records: number): Promise<void> {
  await sql`create table activity_bench (like activity including defaults including constraints)`
  await sql`
    insert into activity_bench (n, id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id,
      root_session_id, template, data, prev_hash, hash)
    select nextval(pg_get_serial_sequence('activity', 'n')), 'act_' || md5(n || '-' || seq), t.id, 'ses_' || ${sql.unsafe(idOf)},
      seq, '2001-01-01Z'::timestamptz + n * interval '1 second', 'token.issued', 'agt_bench', 'usr_bench_' || n % 5000,
      'ses_' || ${sql.unsafe(idOf)}, 'ses_' || ${sql.unsafe(idOf)}, 'renewal-briefs@3', '{"how": "reissue", "grants": 5}',
      repeat('0', 64), repeat('0', 64)
    from tenant t, generate_series(1, ${records / A_SESSION}::int) n, generate_series(1, ${A_SESSION}::int) seq
    where t.slug = 'acme'`
  await sql`select activity_part_is_sound('activity_bench', 'bench')`
  await sql`alter table activity attach partition activity_bench for values from ('2001-01-01Z') to ('2002-01-01Z')`
  await sql`vacuum analyze activity_bench`
}

/** Milliseconds that one look takes, one at a time, each at another session, by an auditor. */
async function looked(world: World, sessions: readonly string[]): Promise<number> {
  const [viewer] = world.users
  const headers = { authorization: `Bearer ${viewer?.people ?? ''}` }
  const requests = sessions.map((id) => ({
    method: 'GET' as const,
    path: `/t/acme/api/activity?session=${id}`,
    headers,
  }))
  const whole = (body: string) => body.split('"token.issued"').length === A_SESSION + 1
  const { perSecond } = await drive(world.lend.origin, 1, requests, whole)
  return 1000 / perSecond
}

async function sessionsOf({ scratch }: World, records: number): Promise<readonly string[]> {
  const rows = await scratch.sql<{ id: string }[]>`
    select 'ses_' || md5((1 + floor(random() * ${records / A_SESSION}))::int::text) as id
    from generate_series(1, ${LOOKS}::int)`
  return rows.map(({ id }) => id)
}

/** A1: what one session did, found among ten million records and among ten thousand. */
export async function a1(options: Options): Promise<readonly Row[]> {
  const many = options.quick ? 10 * FEW : MANY
  const prepared = async (world: World, records: number) => {
    await world.scratch
      .sql`update app_user set staff_roles = '{auditor}' where id = ${world.users[0]?.id ?? ''}`
    await fill(world.scratch.sql, records)
  }
  const side = (world: World, records: number) => async () =>
    looked(world, await sessionsOf(world, records))
  return withWorld({ name: 'a1_few', sessions: 20 }, (few) =>
    withWorld({ name: 'a1_many', sessions: 20, ...options.profiled }, async (large) => {
      await prepared(few, FEW)
      await prepared(large, many)
      const rounds = await alternate(
        [
          ['many', side(large, many)],
          ['few', side(few, FEW)],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            options.pinned(await large.scratch.pin())
            await few.scratch.pin()
          },
        },
      )
      return [
        compare({
          ...{ row: 'A1', unit: 'ms', rounds, lend: 'many', other: 'few' },
          what: `the record of one session among ${many.toLocaleString('en')} records / among ${FEW.toLocaleString('en')}`,
          reach: '≤ 2',
          most: 2,
        }),
      ]
    }),
  )
}
