import { expect, test } from 'vitest'
import { createTemplate, submitDraft } from '../../src/flows/admin/draft-template.ts'
import { setEnablement } from '../../src/flows/admin/enable-template.ts'
import { reviewVersion } from '../../src/flows/admin/review-template.ts'
import { endByPerson } from '../../src/flows/people-sessions.ts'
import { approveProposal, publishAccounts, restoreAccounts } from '../support/accounts-file.ts'
import {
  answer,
  asAgent,
  ask,
  asked,
  codeOf,
  exchange,
  inTx,
  must,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const ROUNDS = 10
twoInstances('a publish', (pair) => {
  const held = () => pair().run(`select id from access_grant where permission_id = 'accounts:read'`)

  for (const [name, read, reason] of [
    ['never delegable', { delegable: false }, 'never_delegable'],
    ['gone', null, 'unknown_permission'],
  ] as const) {
    test(`that makes a permission ${name}: once it has answered, nobody gets it`, async () => {
      const { a, b, run } = pair()
      for (let round = 0; round < ROUNDS; round++) {
        await restoreAccounts(a)
        const sessions = [await start(a, { mode: 'bypass' }), await start(a)] as const
        const question = await asked(a, run, sessions[1], [{ permission: 'accounts:read' }])
        const agent = await asAgent(run, sessions[0])
        const [published, got, answered, issued] = await Promise.all([
          publishAccounts(a, read),
          ask(b, agent, [{ permission: 'accounts:read' }]),
          answer(b, question, 'allow_once'),
          exchange(b),
        ])
        must(published)
        must(issued)
        expect(['mode_bypass', reason]).toContain(must(got).items[0]?.verdict.reason)
        expect(codeOf(answered)).toBe('ok')
        expect([round, await held()]).toEqual([round, []])
        // Whatever was granted was granted before the version was there.
        const [late] = await run(
          `select g.id from activity g, activity p where g.type = 'grant.created'
             and p.type = 'catalog.published' and (p.data ->> 'version')::integer =
               (select max(version) from registry) and g.xid > p.xid`,
        )
        expect(late).toBeUndefined()
        const again = await ask(b, await asAgent(run, sessions[0]), [
          { permission: 'accounts:read' },
        ])
        expect(must(again).items[0]?.verdict.reason).toBe(reason)
        for (const session of sessions)
          await inTx(a, (tx) => endByPerson(a, tx, person('maya'), session))
        await run(`select id from session where status = 'active'`).then(async (rows) => {
          for (const { id } of rows as { id: never }[])
            await inTx(a, (tx) => endByPerson(a, tx, person('maya'), id))
        })
      }
      await expectSound(run)
    })
  }

  test('and another of the same base: one is refused, and numbers have no gap', async () => {
    const { a, b, run } = pair()
    await restoreAccounts(a)
    for (let round = 0; round < ROUNDS; round++) {
      const [{ version: base } = { version: 0 }] = await run<{ version: number }>(
        'select max(version) as version from registry',
      )
      const both = await Promise.all([
        publishAccounts(a, {}, { title: `One ${round}`, base }),
        publishAccounts(b, {}, { title: `Two ${round}`, base }),
      ])
      expect(both.map(codeOf).sort()).toEqual(['catalog_changed', 'ok'])
    }
    const versions = await run<{ version: number }>('select version from registry order by 1')
    expect(versions.map((v) => v.version)).toEqual(versions.map((_, i) => i + 1))
    await expectSound(run)
  })

  test('beside the approval of a template that rests on it, and a turning on: published is only what can be lent', async () => {
    const { a, b, run } = pair()
    const deadlocks = async () =>
      (
        await run<{ n: number }>(
          'select deadlocks::integer as n from pg_stat_database where datname = current_database()',
        )
      )[0]?.n
    const before = await deadlocks()
    for (let round = 0; round < ROUNDS; round++) {
      await restoreAccounts(a)
      const ref = `rests-${round}`
      const of = { ref, version: 1, view: () => ({}) }
      const ceiling = [{ permission: 'accounts:read' }]
      const draft = { purpose: 'Reads accounts', ceiling, sponsor: 'bo' }
      const made = { name: ref, title: ref, visibility: 'public', draft } as const
      must(await inTx(a, (tx) => createTemplate(a, person('bo'), made, tx)))
      must(await inTx(a, (tx) => submitDraft(a, person('bo'), of, tx)))
      const enable = { template: 'renewal-briefs', status: 'on' } as const
      const [published, approved, enabled] = await Promise.all([
        publishAccounts(a, { delegable: false }),
        inTx(b, (tx) => reviewVersion(b, person('rhea'), { ...of, verdict: 'approve' }, tx)),
        inTx(a, (tx) => setEnablement(a, person('adam'), enable, tx)),
      ])
      must(published)
      must(enabled)
      expect(['ok', 'unprocessable']).toContain(codeOf(approved))
      // In the order of commits: what was approved could be lent then.
      const late = await run(
        `select t.id from activity t, activity p where t.type = 'template.published' and t.template = $1
           and p.type = 'catalog.published'
           and (p.data ->> 'version')::integer = (select max(version) from registry) and t.xid > p.xid`,
        [`${ref}@1`],
      )
      expect([round, late]).toEqual([round, []])
    }
    expect(await deadlocks()).toBe(before)
  })

  test('two reviewers at once: one approves, and one version comes of it', async () => {
    const { a, b } = pair()
    await restoreAccounts(a)
    must(await publishAccounts(a, { risk: 'high' }))
    const { proposal: id = '' } = must(await publishAccounts(a, { risk: 'low' }))
    const both = await Promise.all([approveProposal(a, id), approveProposal(b, id)])
    expect(both.map(codeOf).sort()).toEqual(['already_answered', 'ok'])
  })

  test('that ends the grants of many sessions takes all of them', async () => {
    const { a, run } = pair()
    await restoreAccounts(a)
    for (let n = 0; n < 19; n++) {
      const session = await start(a, { mode: 'bypass', login: n % 2 === 0 ? 'maya' : 'omar' })
      must(await ask(a, await asAgent(run, session), [{ permission: 'accounts:read' }]))
    }
    const published = must(await publishAccounts(a, { delegable: false }))
    expect(published).toMatchObject({ grantsEnded: 19, sessionsNarrowed: 19 })
    expect(await held()).toEqual([])
    await expectSound(run)
  })
})
