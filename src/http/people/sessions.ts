import { z } from 'zod'
import {
  id,
  listOf,
  revoked,
  session,
  sessionAccess,
  sessionChange,
  sessionEnded,
  sessionNew,
} from '../../../schema/people.ts'
import { assert } from '../../core/assert.ts'
import { SESSION_STATUSES } from '../../core/session.ts'
import type { Tx } from '../../db/tx.ts'
import { grantViews, sessionViews } from '../../db/view-sessions.ts'
import { fail, ok, type Result } from '../../fault.ts'
import { secondsNow } from '../../flows/live.ts'
import { createSession, endByPerson, takeBack, tightenMode } from '../../flows/people-sessions.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { byTimeAndId, cursor, limit, page } from './page.ts'
import { read, write } from './write.ts'

const TREE_MAX = 1000
const tag = 'sessions'
const byId = z.strictObject({ id })

type View = Awaited<ReturnType<typeof sessionViews>>[number]

/** One's own, or with a role that looks at everyone's, any of the tenant. Anything else is not there (I17). */
async function readable(c: PeopleContext, tx: Tx, sessionId: string): Promise<Result<View>> {
  const { caller, ctx, tenant } = c.var
  const any = caller.staffRoles.some((role) => role === 'org_admin' || role === 'auditor')
  const [view] = await sessionViews(tx, {
    tenantId: tenant.id,
    userId: any ? undefined : caller.userId,
    id: sessionId,
    limit: 1,
    now: secondsNow(ctx.clock),
  })
  return view === undefined ? fail('session_not_found') : ok(view)
}

/** As it is now, in the transaction that changed it. */
async function shown(c: PeopleContext, tx: Tx, sessionId: string): Promise<View> {
  const view = await readable(c, tx, sessionId)
  assert(view.ok, 'a session that was just written can be read')
  return view.value
}

const mountList: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/sessions',
      summary: 'Your sessions, subagents’ among them, newest first',
      tag,
      query: z.strictObject({
        status: z.enum(SESSION_STATUSES).optional(),
        root_id: id.optional(),
        limit,
        cursor: cursor(byTimeAndId),
      }),
      answers: { 200: listOf(session) },
    },
    (c, { query }) =>
      read(c, 'list_sessions', async (tx) => {
        const rows = await sessionViews(tx, {
          tenantId: c.var.tenant.id,
          userId: c.var.caller.userId,
          status: query.status,
          rootId: query.root_id,
          after: query.cursor,
          limit: query.limit + 1,
          now: secondsNow(c.var.ctx.clock),
        })
        return ok(
          page(rows, {
            limit: query.limit,
            item: (row) => row,
            key: (row) => [Date.parse(row.created_at), row.id],
          }),
        )
      }),
  )

const mountCreate: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/sessions',
      summary:
        'Create a session that holds nothing, in a mode of your choice, for an agent to take up',
      tag,
      body: sessionNew,
      idempotent: true,
      answers: { 201: session },
      faults: [
        'template_unknown',
        'template_not_enabled',
        'template_not_listed',
        'template_version_not_adopted',
        'mode_not_allowed',
        'agent_disabled',
        'frozen',
        'limit_reached',
      ],
    },
    (c, { body }) =>
      write(c, 'create_session', async (tx) => {
        const created = await createSession(c.var.ctx, tx, c.var.caller, {
          agentId: body.agent_id,
          template: body.template,
          mode: body.mode ?? 'ask',
          modeExpiresAt: body.mode_expires_at,
          task: body.task,
        })
        if (!created.ok) return created
        return ok({ status: 201, body: await shown(c, tx, created.value.id) })
      }),
  )

const mountGet: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/sessions/{id}',
      summary: 'One session',
      tag,
      params: byId,
      answers: { 200: session },
    },
    (c, { params }) => read(c, 'read_session', (tx) => readable(c, tx, params.id)),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/sessions/{id}/access',
      summary: 'What it and its live subagents hold now, since when, by what and from whom',
      tag,
      params: byId,
      answers: { 200: sessionAccess },
    },
    (c, { params }) => read(c, 'session_access', (tx) => accessOf(c, tx, params.id)),
  )
}

async function accessOf(c: PeopleContext, tx: Tx, sessionId: string): Promise<Result<unknown>> {
  const top = await readable(c, tx, sessionId)
  if (!top.ok) return top
  const { root_id } = top.value
  const tenantId = c.var.tenant.id
  const live = await sessionViews(tx, {
    tenantId,
    rootId: root_id,
    status: 'active',
    limit: TREE_MAX,
    now: secondsNow(c.var.ctx.clock),
  })
  const held = await grantViews(tx, { tenantId, root: root_id })
  const parents = new Map(live.map((one) => [one.id as string, one.parent_id]))
  const isBelow = (from: string | undefined): boolean =>
    from !== undefined && (from === sessionId || isBelow(parents.get(from)))
  // What has run out holds nothing, whether or not the sweep has been there.
  const of = (one: View) => (one.status === 'active' ? (held.get(one.id) ?? []) : [])
  return ok({
    session_id: sessionId,
    items: of(top.value),
    subagents: live
      .filter((one) => isBelow(one.parent_id))
      .reverse()
      .map((one) => ({ session: one, items: of(one) })),
  })
}

const mountEnd: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/sessions/{id}/end',
      summary: 'End it and its subagents. An org admin may end anyone’s',
      takesAway: true,
      tag,
      params: byId,
      body: z.strictObject({}),
      bodyOptional: true,
      idempotent: true,
      answers: { 200: sessionEnded },
      faults: ['session_over'],
    },
    (c, { params }) =>
      write(c, 'end_session', async (tx) => {
        const ended = await endByPerson(c.var.ctx, tx, c.var.caller, params.id)
        if (!ended.ok) return ended
        const { sessions, grants, prompts } = ended.value
        return ok({
          status: 200,
          body: { sessions_ended: sessions, grants_revoked: grants, prompts_cancelled: prompts },
        })
      }),
  )

const mountChange: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'patch',
      path: '/sessions/{id}',
      summary: 'Tighten its mode, and that of its subagents',
      takesAway: true,
      tag,
      params: byId,
      body: sessionChange,
      idempotent: true,
      answers: { 200: session },
      faults: ['mode_not_tighter', 'session_over', 'unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'tighten_mode', async (tx) => {
        const tightened = await tightenMode(c.var.ctx, tx, c.var.caller, {
          id: params.id,
          mode: body.mode,
          modeExpiresAt: body.mode_expires_at,
        })
        if (!tightened.ok) return tightened
        return ok({ status: 200, body: await shown(c, tx, tightened.value.id) })
      }),
  )
  endpoint(
    api,
    {
      method: 'delete',
      path: '/sessions/{id}/grants/{grant_id}',
      summary: 'Take one grant back, with what subagents inherited from it',
      takesAway: true,
      tag,
      params: z.strictObject({ id, grant_id: id }),
      idempotent: true,
      answers: { 200: revoked },
      faults: ['session_over'],
    },
    (c, { params }) =>
      write(c, 'take_back', async (tx) => {
        const of = { sessionId: params.id, grantId: params.grant_id }
        const taken = await takeBack(c.var.ctx, tx, c.var.caller, of)
        return taken.ok ? ok({ status: 200, body: taken.value }) : taken
      }),
  )
}

export const mountSessions: Mount = (api) => {
  for (const mount of [mountList, mountCreate, mountGet, mountEnd, mountChange]) mount(api)
}
