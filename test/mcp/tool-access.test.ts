import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { admitCall, callableTools } from '../../src/flows/call-tool.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { createWorld, type World } from '../support/world.ts'

/**
 * The list and the call are one decision (USER-ASKS 40), on the real database and flows: for random grants, random access of
 * the user and random freezes, a tool is listed exactly when some call of it is allowed, and a call is allowed exactly for
 * what is held and what the user has now.
 */
let world: World
beforeAll(async () => {
  world = await createWorld()
  await world.rows(
    `insert into tool_server (id, tenant_id, name, title, url, created_at)
     values ('tsv_mail', 'ten_acme', 'mail', 'Mail', 'https://mail.example/mcp', now())`,
  )
})
afterAll(() => world.close())

const DOMAINS = ['a.example', 'b.example', 'c.example', 'sub.a.example']
const domains = fc.subarray(DOMAINS)

/** Replaces what maya may send to; null: everywhere. */
async function mayaHas(some: readonly string[] | null): Promise<void> {
  await world.rows(`delete from role_permission where permission_id = 'email:send'
    and role_id = 'rol_manager_acme'`)
  for (const domain of some ?? ['*'])
    await world.rows(`insert into role_permission values ('rol_manager_acme', 'email:send', $1)`, [
      `domain/${domain}`,
    ])
}

async function asked(session: SessionId, to: unknown) {
  const caller = await world.asAgent(session)
  const call = { server: 'mail', tool: 'send_email', args: { to } }
  const admitted = await admitCall(world.ctx, caller, call)
  return admitted.ok && admitted.value.as === 'allowed'
}

test('listed is callable, and callable is held and still the user’s, whatever is held', async () => {
  await fc.assert(
    fc.asyncProperty(
      domains,
      fc.option(domains),
      fc.boolean(),
      fc.array(fc.constantFrom(...DOMAINS), { minLength: 1, maxLength: 3 }),
      async (held, has, frozen, to) => {
        await mayaHas(null)
        const session = await world.start('maya', { mode: 'bypass' })
        const items = held.map((one) => ({ permission: 'email:send', resource: `domain/${one}` }))
        if (items.length > 0) await world.ask(session, items)
        await mayaHas(has)
        if (frozen)
          await world.rows(
            `insert into frozen values ('frz_1', 'ten_acme', 'user', 'usr_maya', 'usr_adam', now())`,
          )
        try {
          const open = frozen ? [] : held.filter((one) => has === null || has.includes(one))
          const listed = await callableTools(world.ctx, await world.asAgent(session), 'mail')
          expect(listed.ok && listed.value.mayCall('send_email')).toBe(open.length > 0)
          expect(listed.ok && listed.value.mayCall('delete_all')).toBe(false)
          for (const domain of DOMAINS)
            expect(await asked(session, `jo@${domain}`), domain).toBe(open.includes(domain))
          const all = to.map((domain) => `jo@${domain}`)
          const covered = to.every((domain) => open.includes(domain))
          expect(await asked(session, all)).toBe(covered)
          expect(await asked(session, all.join(', '))).toBe(covered)
        } finally {
          await world.rows('delete from frozen')
          await endSession(world.ctx, await world.asAgent(session), undefined)
        }
      },
    ),
    { numRuns: 15 },
  )
})

test('a subagent calls what it inherited and its ceiling covers: email-drafter sends nothing', async () => {
  await mayaHas(null)
  const parent = await world.start('maya', { mode: 'bypass' })
  await world.ask(parent, [{ permission: 'email:send', resource: 'domain/a.example' }])
  const child = await world.subagent(parent)
  expect(await asked(parent, 'jo@a.example')).toBe(true)
  expect(await asked(child, 'jo@a.example')).toBe(false)
})
