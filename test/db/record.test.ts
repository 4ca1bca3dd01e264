import { expect, test } from 'vitest'
import { eachDatabase, type Run, refusal } from '../support/databases.ts'
import { EPOCH } from '../support/world-seed.ts'
import { insert, insertRefusal, recordRow, rootRow } from './support/renewals.ts'

/** The record cannot be rewritten (I12), and neither can what has been published. */
eachDatabase('the record', (database) => {
  const refused = (claim: string, by: string, body: (run: Run) => Promise<string | null>): void => {
    test(`refuses ${claim}: ${by}`, () =>
      database().rolledBack(async (run) => expect(await body(run)).toBe(by)))
  }
  const recorded = async (run: Run) => {
    await insert(run, 'session', rootRow())
    await insert(run, 'activity', recordRow())
  }

  for (const [claim, sql] of [
    ['a changed record', `update activity set hash = 'other' where id = 'act_1'`],
    ['a changed place in the order', `update activity set xid = '1' where id = 'act_1'`],
    ['a deleted record', `delete from activity where id = 'act_1'`],
    ['an emptied record', 'truncate activity'],
  ] as const)
    refused(`I12 ${claim}`, 'activity_is_append_only', async (run) => {
      await recorded(run)
      return refusal(run, sql)
    })
  refused('I12 a chain that forks', 'chain_does_not_fork', async (run) => {
    await recorded(run)
    const by = await insertRefusal(run, 'activity', recordRow({ id: 'act_2', hash: 'h2' }))
    // Each part of the record has its own.
    return by?.replace(/_(\d{4}_\d{2}|out_of_months)$/, '') ?? null
  })
  refused(
    'I12 a month that no checkpoint vouches for',
    'only_what_a_checkpoint_vouches_for_goes',
    (run) =>
      refusal(run, 'select drop_activity_part(part) from activity_months order by ends limit 1'),
  )
  for (const name of ['agent_id', 'user_id', 'root_session_id'])
    refused(
      `I12 a session’s record without ${name}`,
      'session_record_names_agent_user_and_session',
      (run) => insertRefusal(run, 'activity', recordRow({ [name]: null })),
    )
  refused(
    'I12 a session’s record on another chain',
    'session_records_are_on_their_sessions_chain',
    (run) => insertRefusal(run, 'activity', recordRow({ chain: 'ten_acme' })),
  )
  refused(
    'I12 a record of no session on a session’s chain',
    'session_records_are_on_their_sessions_chain',
    (run) => insertRefusal(run, 'activity', recordRow({ session_id: null })),
  )

  const checkpointed = (run: Run) =>
    run(`insert into activity_checkpoint (n, at, prev_hash, heads, root, public_jwk, jws, upto)
      values (1, '${EPOCH}', '', '[]', 'r', '{}', 'j', 0)`)
  for (const [claim, sql] of [
    ['a changed checkpoint', `update activity_checkpoint set root = 'other'`],
    ['a deleted checkpoint', 'delete from activity_checkpoint'],
  ] as const)
    refused(`I12 ${claim}`, 'activity_is_append_only', async (run) => {
      await checkpointed(run)
      return refusal(run, sql)
    })
})

const DRAFT = `insert into template_version (template_id, version, status, purpose, ceiling, context,
    modes, limits, children, sensitive, sponsor, author, reviewer)
  values ('tpl_briefs', 4, $1, 'p', '[]', 'c', $2, '{}', '[]', '[]', 's', 'usr_bo', $3)`
const ASK = ['ask']

eachDatabase('what is published', (database) => {
  const inside = (body: (run: Run) => Promise<void>) => database().rolledBack(body)

  for (const [claim, change] of [
    ['a wider ceiling', `ceiling = '[{"permission":"email-templates:write"}]'`],
    ['another context', `context = 'Be long.'`],
    ['looser modes', `modes = array['ask']`],
    ['a sensitive mark less', `sensitive = '[{"permission":"accounts:read"}]'`],
    ['other children', `children = '[]'`],
    ['other limits', `limits = '{}'`],
    ['another reviewer', `reviewer = 'usr_adam'`],
    ['a way back to draft', `status = 'draft'`],
  ] as const)
    test(`does not get ${claim}: published_version_is_immutable`, () =>
      inside(async (run) => {
        const sql = `update template_version set ${change} where template_id = 'tpl_briefs' and version = 3`
        expect(await refusal(run, sql)).toBe('published_version_is_immutable')
      }))

  test('can only be retired, and a retired version stays retired', () =>
    inside(async (run) => {
      const to = (status: string) =>
        `update template_version set status = '${status}' where template_id = 'tpl_briefs' and version = 3`
      expect(await refusal(run, to('retired'))).toBeNull()
      expect(await refusal(run, to('published'))).toBe('published_version_is_immutable')
    }))

  test('a draft can still be changed', () =>
    inside(async (run) => {
      await run(DRAFT, ['draft', ASK, null])
      const sql = `update template_version set context = 'new' where template_id = 'tpl_briefs' and version = 4`
      expect(await refusal(run, sql)).toBeNull()
    }))

  test('has a reviewer who is not the author: reviewer_is_not_the_author', () =>
    inside(async (run) =>
      expect(await refusal(run, DRAFT, ['in_review', ASK, 'usr_bo'])).toBe(
        'reviewer_is_not_the_author',
      ),
    ))

  test('always allows ask: ask_is_always_allowed', () =>
    inside(async (run) =>
      expect(await refusal(run, DRAFT, ['draft', ['bypass'], null])).toBe('ask_is_always_allowed'),
    ))

  test('knows no other mode: ask_is_always_allowed', () =>
    inside(async (run) =>
      expect(await refusal(run, DRAFT, ['draft', ['ask', 'yolo'], null])).toBe(
        'ask_is_always_allowed',
      ),
    ))

  test('an enablement adopts a version that exists: adopted_version_exists', () =>
    inside(async (run) =>
      expect(await refusal(run, 'update enablement set adopted_version = 99')).toBe(
        'adopted_version_exists',
      ),
    ))
})

eachDatabase('names that stand for one thing', (database) => {
  const inside = (body: (run: Run) => Promise<void>) => database().rolledBack(body)
  const key = (kid: string, status: string) =>
    `insert into signing_key (kid, tenant_id, alg, private_jwk, public_jwk, status, created_at)
     values ('${kid}', 'ten_acme', 'ES256', '{}', '{}', '${status}', '${EPOCH}')`
  const user = (more: { id: string; login?: string; subject?: string }) =>
    `insert into app_user (id, tenant_id, issuer, subject, login, name, created_at)
     values ('${more.id}', 'ten_acme', 'https://idp.acme.example', '${more.subject ?? 'new'}',
       '${more.login ?? 'new'}', 'New', '${EPOCH}')`

  const once = (claim: string, by: string, first: string | null, second: string) => {
    test(`${claim}: ${by}`, () =>
      inside(async (run) => {
        if (first !== null) await run(first)
        expect(await refusal(run, second)).toBe(by)
      }))
  }
  once(
    'one active key',
    'one_active_key_a_tenant_and_alg',
    key('k1', 'active'),
    key('k2', 'active'),
  )
  once(
    'one user a tenant, issuer and subject',
    'user_is_keyed_by_tenant_issuer_subject',
    null,
    user({ id: 'usr_maya2', subject: 'maya' }),
  )
  once('one login', 'login_is_unique_in_its_tenant', null, user({ id: 'usr_maya2', login: 'maya' }))
  once(
    'one use of a client assertion',
    'client_assertion_is_used_once',
    `insert into client_assertion values ('ten_acme', 'agt_briefs', 'j', '${EPOCH}')`,
    `insert into client_assertion values ('ten_acme', 'agt_briefs', 'j', '${EPOCH}')`,
  )
  once(
    'one freeze of one thing',
    'target_is_frozen_once',
    `insert into frozen values ('frz_1', 'ten_acme', 'user', 'usr_maya', 'usr_adam', '${EPOCH}')`,
    `insert into frozen values ('frz_2', 'ten_acme', 'user', 'usr_maya', 'usr_adam', '${EPOCH}')`,
  )
  once(
    'one bit of the catalog',
    'permission_bit_is_never_reused',
    null,
    `update permission set bit = (select bit from permission where id = 'accounts:read')
     where id = 'dashboard:view'`,
  )
  once(
    'an agent without a credential',
    'agent_has_a_credential',
    null,
    `update agent set secret_hash = null, jwks = null where id = 'agt_briefs'`,
  )
  once(
    'a staff role that nobody knows',
    'staff_role_is_known',
    null,
    `update app_user set staff_roles = array['root'] where id = 'usr_adam'`,
  )
  test('a key of the next generation may wait beside the active one', () =>
    inside(async (run) => {
      await run(key('k1', 'active'))
      expect(await refusal(run, key('k2', 'next'))).toBeNull()
    }))
})
