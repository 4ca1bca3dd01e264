import type { SqlValue } from '../../../src/db/tx.ts'
import { type Run, refusal } from '../../support/databases.ts'
import { EPOCH } from '../../support/world-seed.ts'

/**
 * The persona of the database's own tests: Maya's renewals. Rows are written past the flows, so that what refuses a row is
 * the database.
 */
export type Columns = Readonly<Record<string, SqlValue>>

const LATER = '2026-11-30T17:00:00.000Z'

const insertText = (table: string, columns: Columns): string => {
  const names = Object.keys(columns)
  const holes = names.map((name, i) => (JSONB.has(name) ? `$${i + 1}::text::jsonb` : `$${i + 1}`))
  return `insert into ${table} (${names.join(', ')}) values (${holes.join(', ')})`
}

const JSONB = new Set(['narrow', 'data', 'heads', 'public_jwk', 'private_jwk', 'kept', 'limits'])

export const insert = async (run: Run, table: string, columns: Columns): Promise<void> => {
  await run(insertText(table, columns), Object.values(columns))
}

/** What refuses the row; null when nothing does. */
export const insertRefusal = (run: Run, table: string, columns: Columns): Promise<string | null> =>
  refusal(run, insertText(table, columns), Object.values(columns))

/** Maya's session of the renewal assistant, in auto mode: `ses_maya` unless named. */
export const rootRow = (more: Columns = {}): Columns => {
  const id = more.id ?? 'ses_maya'
  return {
    id,
    tenant_id: 'ten_acme',
    root_id: id,
    parent_id: null,
    depth: 0,
    user_id: 'usr_maya',
    agent_id: 'agt_briefs',
    template_id: 'tpl_briefs',
    template_version: 3,
    mode: 'auto',
    created_at: EPOCH,
    expires_at: LATER,
    ...more,
  }
}

/** A drafter below it: `ses_drafter` unless named. */
export const childRow = (more: Columns = {}): Columns => ({
  ...rootRow({ id: 'ses_drafter' }),
  root_id: 'ses_maya',
  parent_id: 'ses_maya',
  depth: 1,
  template_id: 'tpl_drafter',
  template_version: 1,
  ...more,
})

/** Maya's answer lent it: `grt_accounts` unless named. Needs `req_maya`. */
export const grantRow = (more: Columns = {}): Columns => ({
  id: 'grt_accounts',
  tenant_id: 'ten_acme',
  session_id: 'ses_maya',
  permission_id: 'accounts:read',
  source: 'user',
  sensitive: false,
  request_id: 'req_maya',
  created_at: EPOCH,
  ...more,
})

export const inheritedRow = (more: Columns = {}): Columns =>
  grantRow({
    id: 'grt_inherited',
    session_id: 'ses_drafter',
    source: 'inherited',
    request_id: null,
    inherited_from: 'grt_accounts',
    parent_session_id: 'ses_maya',
    ...more,
  })

export const requestRow = (more: Columns = {}): Columns => ({
  id: 'req_maya',
  tenant_id: 'ten_acme',
  session_id: 'ses_maya',
  root_id: 'ses_maya',
  user_id: 'usr_maya',
  reason: 'to write the brief',
  digest: 'of the items',
  status: 'pending',
  created_at: EPOCH,
  expires_at: LATER,
  ...more,
})

export const itemRow = (more: Columns = {}): Columns => ({
  id: 'itm_maya',
  request_id: 'req_maya',
  session_id: 'ses_maya',
  position: 0,
  permission_id: 'accounts:read',
  sensitive: false,
  asked_reason: 'mode_ask',
  outcome: 'pending',
  decision_reason: 'mode_ask',
  ...more,
})

export const ruleRow = (more: Columns = {}): Columns => ({
  id: 'rul_maya',
  tenant_id: 'ten_acme',
  user_id: 'usr_maya',
  template_id: 'tpl_briefs',
  permission_id: 'accounts:read',
  effect: 'allow',
  created_at: EPOCH,
  ...more,
})

export const recordRow = (more: Columns = {}): Columns => ({
  id: 'act_1',
  tenant_id: 'ten_acme',
  chain: 'ses_maya',
  seq: 1,
  at: EPOCH,
  type: 'session.started',
  agent_id: 'agt_briefs',
  user_id: 'usr_maya',
  session_id: 'ses_maya',
  root_session_id: 'ses_maya',
  template: 'renewal-briefs@3',
  data: '{}',
  prev_hash: '',
  hash: 'h1',
  ...more,
})

/** Maya's session with a question open. */
export async function renewals(run: Run, session: Columns = {}): Promise<void> {
  await insert(run, 'session', rootRow(session))
  await insert(run, 'access_request', requestRow())
  await insert(run, 'request_item', itemRow())
}

/** The same, holding accounts:read. */
export async function holding(run: Run): Promise<void> {
  await renewals(run)
  await insert(run, 'access_grant', grantRow())
}

export const endSql = (id: string): string =>
  `update session set status = 'ended', end_reason = 'agent', ended_at = '${EPOCH}' where id = '${id}'`
