import { expect, test } from 'vitest'
import { pause, twoInstances } from '../race/support/instances.ts'
import { eachDatabase, type Run, refusal, runIn } from '../support/databases.ts'
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
  rootRow,
  ruleRow,
} from './support/renewals.ts'

/** What the database refuses although no flow would write it. */
eachDatabase('past the flows, the database refuses', (database) => {
  const refused = (claim: string, by: string, body: (run: Run) => Promise<string | null>): void => {
    test(`${claim}: ${by}`, () =>
      database().rolledBack(async (run) => expect(await body(run)).toBe(by)))
  }

  for (const [whose, row] of [
    ['another user’s session', { user_id: 'usr_omar' }],
    [
      'another tenant’s session (I17)',
      { user_id: 'usr_gus', tenant_id: 'ten_globex', agent_id: 'agt_globex' },
    ],
  ] as const)
    refused(`I9 ${whose} inheriting`, 'inherited_is_from_the_sessions_parent', async (run) => {
      await holding(run)
      await insert(run, 'session', rootRow({ id: 'ses_other', ...row }))
      const tenant_id = 'tenant_id' in row ? row.tenant_id : 'ten_acme'
      return insertRefusal(
        run,
        'access_grant',
        inheritedRow({ session_id: 'ses_other', tenant_id }),
      )
    })

  const board = grantRow({
    id: 'grt_board',
    permission_id: 'dashboard:view',
    resource: 'dashboard/board',
  })
  refused('I9 a child inheriting a wider pattern', 'inherited_is_the_parents_own', async (run) => {
    await holding(run)
    await insert(run, 'session', childRow())
    await insert(run, 'access_grant', board)
    const wider = { permission_id: 'dashboard:view', resource: 'dashboard/*' }
    const row = inheritedRow({ ...wider, inherited_from: 'grt_board' })
    return insertRefusal(run, 'access_grant', row)
  })

  refused(
    'I8 a mode lending what the catalog marks sensitive, unmarked',
    'sensitive_is_granted_only_by_the_users_answer',
    async (run) => {
      await holding(run)
      const row = grantRow({
        id: 'grt_2',
        permission_id: 'contracts.fields:pricing',
        source: 'mode',
      })
      return insertRefusal(run, 'access_grant', row)
    },
  )
  for (const [claim, sql] of [
    ['becomes an allow', `update consent_rule set effect = 'allow'`],
    [
      'moves',
      `update consent_rule set effect = 'allow', permission_id = 'contracts.fields:pricing'`,
    ],
  ] as const)
    refused(`I8 a rule that ${claim}`, 'sensitive_is_never_remembered', async (run) => {
      const row = ruleRow({ permission_id: 'contracts.fields:pricing', effect: 'deny' })
      await insert(run, 'consent_rule', row)
      return refusal(run, sql)
    })

  refused('a grant that becomes another', 'grant_is_what_was_given', async (run) => {
    await holding(run)
    return refusal(run, `update access_grant set permission_id = 'email-templates:write'`)
  })
  test('a grant counts its uses', () =>
    database().rolledBack(async (run) => {
      await holding(run)
      const sql = `update access_grant set uses = uses + 1, last_used_at = '${EPOCH}'`
      expect(await refusal(run, sql)).toBeNull()
    }))

  const other = rootRow({ id: 'ses_other' })
  refused('an item on another session', 'item_is_of_its_requests_session', async (run) => {
    await holding(run)
    await insert(run, 'session', other)
    const row = itemRow({ id: 'itm_2', position: 1, session_id: 'ses_other' })
    return insertRefusal(run, 'request_item', row)
  })
  refused(
    'a grant by another session’s answer',
    'grant_is_of_its_sessions_request',
    async (run) => {
      await holding(run)
      await insert(run, 'session', other)
      const row = grantRow({ id: 'grt_2', session_id: 'ses_other' })
      return insertRefusal(run, 'access_grant', row)
    },
  )

  refused('a version published without a review', 'published_was_reviewed', (run) =>
    refusal(
      run,
      `insert into template_version (template_id, version, status, purpose, ceiling, context, modes, limits,
         children, sensitive, sponsor, author)
       values ('tpl_briefs', 9, 'published', 'p', '[]', 'c', array['ask'], '{}', '[]', '[]', 's', 'usr_bo')`,
    ),
  )
  refused('a published version that is deleted', 'published_version_is_immutable', (run) =>
    refusal(run, `delete from template_version where template_id = 'tpl_briefs' and version = 2`),
  )
  refused('I12 emptied checkpoints', 'activity_is_append_only', (run) =>
    refusal(run, 'truncate activity_checkpoint'),
  )
})

twoInstances('I11 a child’s insert past the flows', (pair) => {
  test('while its parent’s end commits is refused', async () => {
    const { a, b, run } = pair()
    await insert(run, 'session', rootRow())
    let inserting: Promise<string | null> | undefined
    await a.db.begin('end', async (tx) => {
      await runIn(tx)(endSql('ses_maya'))
      inserting = b.db.begin('child', (other) => insertRefusal(runIn(other), 'session', childRow()))
      inserting.catch(() => {})
      await pause(200)
    })
    // The statement is refused and its transaction with it.
    expect(await inserting?.catch(String)).toContain('child_starts_within_its_parent')
  })
})
