import { expect, test } from 'vitest'
import { type Database, eachDatabase, type Run, refusal } from '../support/databases.ts'
import { EPOCH } from '../support/world-seed.ts'
import {
  childRow,
  endSql,
  grantRow,
  holding,
  inheritedRow,
  insert,
  insertRefusal,
  itemRow,
  renewals,
  requestRow,
  rootRow,
  ruleRow,
} from './support/renewals.ts'

const STANDING = { id: 'of_acme', tenant_id: 'ten_acme', created_at: EPOCH } as const

/**
 * What the database itself refuses, whichever code writes to it. Each case is a sentence, and the constraint or trigger
 * that makes it true.
 */
eachDatabase('the database refuses', (database: () => Database) => {
  const inside = (body: (run: Run) => Promise<void>) => database().rolledBack(body)

  /** A case: rows that are fine, then one change that is not. */
  const refused = (claim: string, by: string, body: (run: Run) => Promise<string | null>): void => {
    test(`${claim}: ${by}`, () => inside(async (run) => expect(await body(run)).toBe(by)))
  }

  test('nothing of what the cases start from', () =>
    inside(async (run) => {
      await holding(run)
      await insert(run, 'session', childRow())
      expect(await insertRefusal(run, 'access_grant', inheritedRow())).toBeNull()
    }))

  // I2: what is held is delegable.
  refused(
    'I2 a grant of a never-delegable permission',
    'never_delegable_stays_never_granted',
    async (run) => {
      await renewals(run)
      return insertRefusal(run, 'access_grant', grantRow({ permission_id: 'billing:admin' }))
    },
  )
  refused(
    'I2 a grant that admits its permission is never delegable',
    'never_delegable_is_never_granted',
    async (run) => {
      await renewals(run)
      const row = grantRow({ permission_id: 'billing:admin', permission_delegable: false })
      return insertRefusal(run, 'access_grant', row)
    },
  )
  refused(
    'I2 marking a permission never delegable while it is held',
    'never_delegable_stays_never_granted',
    async (run) => {
      await holding(run)
      return refusal(run, `update permission set delegable = false where id = 'accounts:read'`)
    },
  )
  refused('the same item held twice', 'an_item_is_held_once', async (run) => {
    await holding(run)
    return insertRefusal(run, 'access_grant', grantRow({ id: 'grt_again' }))
  })

  // I5: no grant outlives its session.
  refused('I5 a grant on an ended session', 'no_grant_outlives_its_session', async (run) => {
    await renewals(run)
    await run(endSql('ses_maya'))
    return insertRefusal(run, 'access_grant', grantRow())
  })
  refused(
    'I5 a grant that says it is on an ended session',
    'grant_lives_on_an_active_session',
    async (run) => {
      await renewals(run)
      await run(endSql('ses_maya'))
      return insertRefusal(run, 'access_grant', grantRow({ session_status: 'ended' }))
    },
  )
  refused(
    'I5 ending a session that still holds a grant',
    'no_grant_outlives_its_session',
    async (run) => {
      await holding(run)
      return refusal(run, endSql('ses_maya'))
    },
  )
  refused('I5 a session that ends without saying why', 'ended_says_when_and_why', async (run) => {
    await renewals(run)
    return refusal(run, `update session set status = 'ended' where id = 'ses_maya'`)
  })
  refused('I5 an ended session that lives again', 'session_end_is_final', async (run) => {
    await renewals(run)
    await run(endSql('ses_maya'))
    return refusal(
      run,
      `update session set status = 'active', end_reason = null, ended_at = null where id = 'ses_maya'`,
    )
  })
  refused('I5 an end that is exchanged for another', 'session_end_is_final', async (run) => {
    await renewals(run)
    await run(endSql('ses_maya'))
    return refusal(run, `update session set status = 'revoked' where id = 'ses_maya'`)
  })
  refused('I5 an end that moves out', 'session_end_never_moves_out', async (run) => {
    await renewals(run)
    return refusal(
      run,
      `update session set expires_at = expires_at + interval '1 second' where id = 'ses_maya'`,
    )
  })

  // I6 and I16: one answer, the session's own user's.
  const answer = (by: string) =>
    `update request_item set outcome = 'granted', decision_reason = 'allowed_by_user',
       answered_by = ${by} where id = 'itm_maya'`
  refused('I6 an answer of another user', 'only_the_sessions_own_user_answers', async (run) => {
    await renewals(run)
    return refusal(run, answer(`'usr_adam'`))
  })
  refused('I6 a user’s answer that names nobody', 'a_users_end_names_the_user', async (run) => {
    await renewals(run)
    return refusal(run, answer('null'))
  })
  refused('I6 a request in another user’s name', 'request_is_of_its_sessions_user', async (run) => {
    await renewals(run)
    return insertRefusal(run, 'access_request', requestRow({ id: 'req_2', user_id: 'usr_omar' }))
  })
  refused('I16 a second end of a prompt', 'prompt_is_answered_once', async (run) => {
    await renewals(run)
    await run(answer(`'usr_maya'`))
    return refusal(
      run,
      `update request_item set outcome = 'refused', decision_reason = 'expired' where id = 'itm_maya'`,
    )
  })
  refused('I16 an answer to something else', 'answered_is_what_was_asked', async (run) => {
    await renewals(run)
    return refusal(
      run,
      `update request_item set permission_id = 'email-templates:write' where id = 'itm_maya'`,
    )
  })
  refused('I16 the same item asked twice', 'nobody_is_asked_twice', async (run) => {
    await renewals(run)
    return insertRefusal(run, 'request_item', itemRow({ id: 'itm_again', position: 1 }))
  })

  // I7: a mode is only ever tightened.
  const mode = (to: string) => `update session set ${to} where id = 'ses_maya'`
  refused('I7 auto that becomes bypass', 'mode_is_never_loosened', async (run) => {
    await renewals(run)
    return refusal(run, mode(`mode = 'bypass'`))
  })
  refused('I7 ask that becomes auto', 'mode_is_never_loosened', async (run) => {
    await renewals(run, { mode: 'ask' })
    return refusal(run, mode(`mode = 'auto'`))
  })
  refused('I7 a bypass that runs longer', 'mode_is_never_loosened', async (run) => {
    await renewals(run, { mode: 'bypass', mode_expires_at: '2026-11-30T10:00:00.000Z' })
    return refusal(run, mode(`mode_expires_at = mode_expires_at + interval '1 second'`))
  })
  refused('I7 a bypass that no longer runs out', 'mode_is_never_loosened', async (run) => {
    await renewals(run, { mode: 'bypass', mode_expires_at: '2026-11-30T10:00:00.000Z' })
    return refusal(run, mode('mode_expires_at = null'))
  })
  test('I7 tightening is open', () =>
    inside(async (run) => {
      await renewals(run, { mode: 'bypass', mode_expires_at: '2026-11-30T10:00:00.000Z' })
      const sooner = mode(`mode_expires_at = mode_expires_at - interval '1 second'`)
      expect(await refusal(run, sooner)).toBeNull()
      expect(await refusal(run, mode(`mode = 'ask', mode_expires_at = null`))).toBeNull()
    }))

  // I8: sensitive only by the user's answer, never remembered.
  for (const [source, names] of [
    ['rule', { rule_id: 'rul_maya' }],
    ['mode', {}],
    ['inherited', { inherited_from: 'grt_accounts', parent_session_id: 'ses_maya' }],
  ] as const) {
    refused(
      `I8 a sensitive grant with source ${source}`,
      'sensitive_is_granted_only_by_the_users_answer',
      async (run) => {
        await renewals(run)
        const sensitive = { permission_id: 'contracts.fields:pricing', sensitive: true }
        return insertRefusal(run, 'access_grant', grantRow({ ...sensitive, source, ...names }))
      },
    )
  }
  refused('I8 an allow rule for a sensitive permission', 'sensitive_is_never_remembered', (run) =>
    insertRefusal(run, 'consent_rule', ruleRow({ permission_id: 'contracts.fields:pricing' })),
  )
  refused('I8 a suspended deny', 'only_allow_rules_are_suspended', (run) =>
    insertRefusal(run, 'consent_rule', ruleRow({ effect: 'deny', status: 'suspended' })),
  )
  refused('a rule saved twice', 'rule_is_saved_once', async (run) => {
    await insert(run, 'consent_rule', ruleRow())
    return insertRefusal(run, 'consent_rule', ruleRow({ id: 'rul_again' }))
  })
  // I10: a rule is never access, so what a rule skipped is named.
  refused(
    'I10 a grant by a rule that it does not name',
    'rule_grants_name_their_rule',
    async (run) => {
      await renewals(run)
      return insertRefusal(run, 'access_grant', grantRow({ source: 'rule' }))
    },
  )
  refused('a grant by an answer to nothing', 'user_grants_name_their_request', async (run) => {
    await renewals(run)
    return insertRefusal(run, 'access_grant', grantRow({ request_id: null }))
  })

  // I9: a child inherits at most its parent's.
  const withChild = async (run: Run) => {
    await holding(run)
    await insert(run, 'session', childRow())
  }
  refused(
    'I9 an inherited grant of another permission',
    'inherited_follows_the_parents',
    async (run) => {
      await withChild(run)
      const row = inheritedRow({ permission_id: 'email-templates:write' })
      return insertRefusal(run, 'access_grant', row)
    },
  )
  refused('I9 an inherited grant of nobody’s', 'inherited_names_its_origin', async (run) => {
    await withChild(run)
    return insertRefusal(run, 'access_grant', inheritedRow({ parent_session_id: null }))
  })
  refused(
    'I9 the parent’s grant gone before the inherited',
    'inherited_follows_the_parents',
    async (run) => {
      await withChild(run)
      await insert(run, 'access_grant', inheritedRow())
      return refusal(run, `delete from access_grant where id = 'grt_accounts'`)
    },
  )
  for (const [claim, more] of [
    ['looser than its parent', { mode: 'bypass' }],
    ['that ends after its parent', { expires_at: '2026-11-30T17:00:00.001Z' }],
    ['two levels below its parent', { depth: 2 }],
    ['beside its parent', { depth: 0 }],
  ] as const)
    refused(`I9 a child ${claim}`, 'child_starts_within_its_parent', async (run) => {
      await renewals(run)
      return insertRefusal(run, 'session', childRow(more))
    })
  refused('a root that is not its own root', 'root_is_its_own_root', async (run) => {
    await renewals(run)
    return insertRefusal(run, 'session', rootRow({ id: 'ses_2', root_id: 'ses_maya' }))
  })
  refused('I9 a child of another agent', 'child_starts_within_its_parent', async (run) => {
    await renewals(run)
    await run(`insert into agent (id, tenant_id, name, secret_hash, app_clients, template_ids, created_at)
      values ('agt_other', 'ten_acme', 'Other', 'none', '{}', '{}', now())`)
    return insertRefusal(run, 'session', childRow({ agent_id: 'agt_other' }))
  })
  refused('I9 a child of another user', 'child_is_of_its_parents_tree_and_user', async (run) => {
    await renewals(run)
    return insertRefusal(run, 'session', childRow({ user_id: 'usr_omar' }))
  })

  // I11: an end takes the subtree along.
  refused('I11 a child of an ended parent', 'child_starts_within_its_parent', async (run) => {
    await renewals(run)
    await run(endSql('ses_maya'))
    return insertRefusal(run, 'session', childRow())
  })
  refused(
    'I11 an ended parent with a live child',
    'parent_ends_after_its_children',
    async (run) => {
      await renewals(run)
      await insert(run, 'session', childRow())
      return refusal(run, endSql('ses_maya'))
    },
  )
  test('I11 parent and child may end in either order within one commit', () =>
    inside(async (run) => {
      await renewals(run)
      await insert(run, 'session', childRow())
      await run(endSql('ses_maya'))
      expect(await refusal(run, endSql('ses_drafter'))).toBeNull()
    }))
  refused(
    'I11 a credential for an ended session',
    'ended_session_gets_no_credential',
    async (run) => {
      await renewals(run)
      await run(endSql('ses_maya'))
      return refusal(run, `update session set refresh_hash = 'new' where id = 'ses_maya'`)
    },
  )
  refused('a version that falls', 'session_version_only_rises', async (run) => {
    await renewals(run, { version: 2 })
    return refusal(run, `update session set version = 1 where id = 'ses_maya'`)
  })
  refused('a refresh token of two sessions', 'refresh_token_names_one_session', async (run) => {
    await renewals(run, { refresh_hash: 'h' })
    return insertRefusal(run, 'session', rootRow({ id: 'ses_2', refresh_hash: 'h' }))
  })
  refused('a session that changes hands', 'session_is_whose_it_was', async (run) => {
    await renewals(run)
    return refusal(run, `update session set agent_id = 'agt_globex' where id = 'ses_maya'`)
  })

  // I17: nothing crosses tenants.
  refused('I17 a session of another tenant’s user', 'session_is_of_a_user_of_its_tenant', (run) =>
    insertRefusal(run, 'session', rootRow({ user_id: 'usr_gus' })),
  )
  refused(
    'I17 a session of another tenant’s agent',
    'session_is_of_an_agent_of_its_tenant',
    (run) => insertRefusal(run, 'session', rootRow({ agent_id: 'agt_globex' })),
  )
  refused(
    'I17 a child of another tenant’s session',
    'child_starts_within_its_parent',
    async (run) => {
      await renewals(run)
      const globex = { tenant_id: 'ten_globex', user_id: 'usr_gus', agent_id: 'agt_globex' }
      return insertRefusal(run, 'session', childRow(globex))
    },
  )
  refused(
    'I17 a request in another tenant’s name',
    'request_is_of_its_sessions_user',
    async (run) => {
      await renewals(run)
      const row = requestRow({ id: 'req_2', tenant_id: 'ten_globex' })
      return insertRefusal(run, 'access_request', row)
    },
  )
  refused(
    'I17 a grant in another tenant’s name',
    'grant_is_of_its_sessions_tenant',
    async (run) => {
      await renewals(run)
      return insertRefusal(run, 'access_grant', grantRow({ tenant_id: 'ten_globex' }))
    },
  )
  for (const [what, table, row, by] of [
    [
      'rule of another tenant’s user',
      'consent_rule',
      ruleRow({ user_id: 'usr_gus' }),
      'rule_is_of_a_user',
    ],
    [
      'permission for another tenant’s user',
      'user_permission',
      { ...STANDING, user_id: 'usr_gus', permission_id: 'accounts:read' },
      'permission_goes_to_a_user',
    ],
    [
      'role for another tenant’s user',
      'role_assignment',
      { ...STANDING, user_id: 'usr_gus', role_id: 'rol_manager_acme' },
      'assignee_is_a_user',
    ],
    [
      'role of another tenant',
      'role_assignment',
      { ...STANDING, user_id: 'usr_adam', role_id: 'rol_manager_globex' },
      'assigned_role_is_of_the_tenant',
    ],
    [
      'restriction of another tenant’s user',
      'restriction',
      { ...STANDING, user_id: 'usr_gus', entity: 'accounts' },
      'restricted_is_a_user',
    ],
  ] as const)
    refused(`I17 a ${what}`, by, (run) => insertRefusal(run, table, row))
})
