import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'
import canonicalize from 'canonicalize'
import { CompactSign, calculateJwkThumbprint, importJWK, type JWK } from 'jose'
import type { SqlValue } from '../../../src/db/tx.ts'
import type { Run } from '../../support/databases.ts'
import { EPOCH, seed } from '../../support/world-seed.ts'

/**
 * A database as the first released version left it: only its schema, and rows as it wrote them. Hashes and the checkpoint are
 * made here, from the specification and not by the program that is to read them.
 */

/** A folder of migrations with the first one alone. */
export function firstMigration(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lend-first-'))
  mkdirSync(join(folder, 'meta'))
  cpSync('drizzle/0000_first.sql', join(folder, '0000_first.sql'))
  const entry = { idx: 0, version: '7', when: 1796000000000, tag: '0000_first', breakpoints: true }
  const journal = { version: '7', dialect: 'postgresql', entries: [entry] }
  writeFileSync(join(folder, 'meta', '_journal.json'), JSON.stringify(journal))
  return folder
}

export const REFRESH = 'a refresh token of the first version'
export const LIVE = 'ses_live'
export const OVER = 'ses_over'

const sha256 = (...parts: readonly (string | Buffer)[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}
const hexOf = (text: string) => sha256(text).toString('hex')

type Head = { tenant_id: string; chain: string; seq: number; hash: string }

/** Writes a chain's records, each over the one before. */
async function chainOf(
  run: Run,
  names: Readonly<Record<string, string>>,
  records: readonly (readonly [string, object])[],
): Promise<Head> {
  const chain = names.session_id ?? 'ten_acme'
  let head: Head = { tenant_id: 'ten_acme', chain, seq: 0, hash: '' }
  for (const [type, data] of records) {
    const seq = head.seq + 1
    const record = {
      ...{ id: `act_${chain}_${seq}`, tenant_id: 'ten_acme', seq, at: EPOCH, type },
      ...{ ...names, data, prev_hash: head.hash },
    }
    const hash = hexOf(canonicalize(record) ?? '')
    await run(
      `insert into activity (id, tenant_id, chain, seq, at, type, agent_id, user_id, session_id, root_session_id,
         template, data, prev_hash, hash)
       values ($1, 'ten_acme', $2, $3, $4::text::timestamptz, $5, $6, $7, $8, $8, $9, $10::text::jsonb, $11, $12)`,
      [
        ...[record.id, chain, seq, EPOCH, type, names.agent_id ?? null, names.user_id ?? null],
        ...[names.session_id ?? null, names.template ?? null, JSON.stringify(data)],
        ...[head.hash, hash],
      ],
    )
    head = { ...head, seq, hash }
  }
  return head
}

/** RFC 9162 section 2.1.1, of three leaves. */
function rootOf([a, b, c]: readonly [Head, Head, Head]): string {
  const leaf = (head: Head) => sha256(Buffer.from([0]), canonicalize(head) ?? '')
  const node = (left: Buffer, right: Buffer) => sha256(Buffer.from([1]), left, right)
  return node(node(leaf(a), leaf(b)), leaf(c)).toString('hex')
}

async function checkpoint(run: Run, key: JWK, heads: readonly [Head, Head, Head]): Promise<void> {
  const [place] = await run<{ upto: string }>('select pg_current_xact_id()::text as upto')
  const { d: _, ...publicJwk } = key
  const upto = place?.upto ?? '0'
  const claims = { n: 1, at: EPOCH, prev_hash: '', root: rootOf(heads), heads: heads.length, upto }
  const kid = await calculateJwkThumbprint(publicJwk)
  const jws = await new CompactSign(new TextEncoder().encode(canonicalize(claims)))
    .setProtectedHeader({ alg: 'ES256', typ: 'lend-checkpoint+json', kid })
    .sign(await importJWK(key, 'ES256'))
  await run(
    `insert into activity_checkpoint (n, at, prev_hash, heads, root, public_jwk, jws, upto)
     values (1, $1::text::timestamptz, '', $2::text::jsonb, $3, $4::text::jsonb, $5, $6::text::bigint)`,
    [EPOCH, JSON.stringify(heads), claims.root, JSON.stringify(publicJwk), jws, upto],
  )
}

const NAMES = {
  ...{ agent_id: 'agt_briefs', user_id: 'usr_maya', template: 'renewal-briefs@3' },
} as const

async function sessions(run: Run): Promise<void> {
  const insert = (id: string, refresh: string | null) =>
    run(
      `insert into session (id, tenant_id, root_id, depth, user_id, agent_id, template_id, template_version, mode,
         refresh_hash, claimed_at, created_at, expires_at)
       values ($1, 'ten_acme', $1, 0, 'usr_maya', 'agt_briefs', 'tpl_briefs', 3, 'ask', $2, $3::text::timestamptz,
         $3::text::timestamptz, $3::text::timestamptz + interval '8 hours')`,
      [id, refresh, EPOCH],
    )
  await insert(LIVE, hexOf(REFRESH))
  await insert(OVER, null)
  await run(
    `insert into access_request values ('req_1', 'ten_acme', $1, $1, 'usr_maya', 'for the briefs', 'digest', 'pending', null,
       $2::text::timestamptz, $2::text::timestamptz + interval '8 hours', null)`,
    [LIVE, EPOCH],
  )
  const item = (id: string, position: number, permission: string, rest: readonly SqlValue[]) =>
    run(
      `insert into request_item (id, request_id, session_id, position, permission_id, sensitive, outcome,
         decision_reason, answered_by) values ($1, 'req_1', $2, $3, $4, $5, $6, $7, $8)`,
      [id, LIVE, position, permission, ...rest],
    )
  const maya = 'usr_maya'
  await item('itm_1', 0, 'accounts:read', [false, 'granted', 'allowed_by_user', maya])
  await item('itm_2', 1, 'contracts.fields:pricing', [true, 'pending', 'sensitive', null])
  await run(
    `insert into access_grant (id, tenant_id, session_id, permission_id, source, sensitive, request_id, created_at)
     values ('grt_1', 'ten_acme', $1, 'accounts:read', 'user', false, 'req_1', $2::text::timestamptz)`,
    [LIVE, EPOCH],
  )
  await run(
    `insert into consent_rule (id, tenant_id, user_id, template_id, permission_id, effect, created_at)
     values ('rul_1', 'ten_acme', 'usr_maya', 'tpl_briefs', 'accounts.rows:my_region', 'allow', $1::text::timestamptz)`,
    [EPOCH],
  )
}

/** A key of the tenant's that signs its tokens, as the first version kept it. */
async function signingKey(run: Run, key: JWK): Promise<void> {
  const { d: _, ...publicJwk } = key
  const kid = await calculateJwkThumbprint(publicJwk)
  await run(
    `insert into signing_key (kid, tenant_id, alg, private_jwk, public_jwk, status, created_at)
     values ($1, 'ten_acme', 'ES256', $2::text::jsonb, $3::text::jsonb, 'active', $4::text::timestamptz)`,
    [kid, JSON.stringify(key), JSON.stringify({ ...publicJwk, kid }), EPOCH],
  )
}

/** Fills a database at the first schema. `key` signs its checkpoint, and acme's tokens. */
export async function writeAsFirst(run: Run, key: JWK): Promise<void> {
  const query = async (sql: string, params: readonly SqlValue[]) =>
    // What came later was not there to be filled.
    /operator_tenant|service_client/.test(sql) ? [] : run(sql, params)
  await seed({ query } as unknown as PGlite)
  await sessions(run)
  await signingKey(run, key)
  const live = await chainOf(run, { ...NAMES, session_id: LIVE, root_session_id: LIVE }, [
    ['session.started', { mode: 'ask', by: 'exchange' }],
    ['access.requested', { request_id: 'req_1', items: [{ permission: 'accounts:read' }] }],
    ['access.decided', { permission: 'accounts:read', outcome: 'granted', decided_by: 'prompt' }],
    ['grant.created', { grant_id: 'grt_1', permission: 'accounts:read' }],
  ])
  const over = await chainOf(run, { ...NAMES, session_id: OVER, root_session_id: OVER }, [
    ['session.started', { mode: 'ask', by: 'exchange' }],
    ['session.ended', { reason: 'agent', status: 'ended', grants_ended: 0 }],
  ])
  const tenant = await chainOf(run, {}, [['admin.changed', { what: 'tenant.created' }]])
  for (const head of [live, over])
    await run('update session set chain_seq = $1, chain_hash = $2 where id = $3', [
      ...[head.seq, head.hash, head.chain],
    ])
  await run(
    `update session set status = 'ended', end_reason = 'agent', ended_at = $1::text::timestamptz, version = 2
     where id = $2`,
    [EPOCH, OVER],
  )
  await run(`update tenant_chain set seq = $1, hash = $2 where tenant_id = 'ten_acme'`, [
    ...[tenant.seq, tenant.hash],
  ])
  await checkpoint(run, key, [live, over, tenant])
}
