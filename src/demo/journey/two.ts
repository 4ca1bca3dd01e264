import { z } from 'zod'
import type { Session } from './app.ts'
import { sendsMail } from './mail.ts'
import {
  type AccessRequest,
  child,
  described,
  directPermissions,
  ended,
  myAccess,
  rules,
  session,
  users,
} from './people.ts'
import {
  answer,
  ask,
  call,
  callWith,
  decisionOf,
  namesOf,
  outcomesOf,
  PRICING,
  pane,
  promptFor,
  type Scene,
  TASK,
  TEMPLATES_WRITE,
  THREE,
} from './scene.ts'

/** Journey 2: a user's session, end to end. */

const ALL_PENDING = ['pending mode_ask', 'pending mode_ask', 'pending mode_ask']

async function startsWithNothing(scene: Scene): Promise<Session> {
  const { story, app, services } = scene
  story.step('The session starts with nothing')
  story.say('maya', `“${TASK}”`)
  const agent = await app.start({
    userToken: scene.appToken,
    template: 'renewal-briefs',
    task: TASK,
  })
  story.say('app', 'exchanged Maya’s token, its own credential and the template')
  story.same('authorization_details of the first token', agent.token().authorization_details, [])
  story.same('scope of the first token', agent.token().scope, undefined)
  story.holds('the token lives 15 minutes at most', agent.token().expires_in <= 900)
  story.same(
    'what the session holds',
    await pane(scene, { session: agent.id, title: 'renewal briefs' }),
    [],
  )
  const refused = await call(scene, {
    who: 'agent',
    session: agent,
    service: services.accounts,
    path: '/accounts',
  })
  story.same('the accounts service before anything is granted', refused.status, 403)
  story.same('the item that the service names', refused.body.ask, {
    tool: 'iam.request_access',
    items: [{ permission: 'accounts:read' }],
  })
  return agent
}

async function asks(scene: Scene, agent: Session): Promise<AccessRequest> {
  const { story } = scene
  story.step('The agent asks, and Maya is asked')
  const { permissions } = await agent.tool(
    'iam.describe_permissions',
    { task: 'find accounts that are up for renewal' },
    described,
  )
  story.say(
    'agent',
    `iam.describe_permissions → ${permissions
      .filter((p) => p.in_ceiling)
      .map((p) => p.id)
      .join(', ')}`,
  )
  story.holds(
    'the catalog finds accounts:read',
    permissions.some((p) => p.id === 'accounts:read'),
  )
  const asked = await ask(scene, {
    session: agent,
    who: 'agent',
    items: THREE,
    reason: 'To list the accounts that renew this quarter and compare them with the pipeline.',
  })
  story.same('outcomes', outcomesOf(asked), ALL_PENDING)
  const request = await promptFor(scene, agent.id)
  const path = `/access-requests/${request.id}/decision`
  const own = await fetch(`${scene.issuer}/api${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${agent.token().access_token}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(decisionOf(request, 'allow_always')),
  })
  story.holds('the agent cannot answer its own prompt', own.status === 401 || own.status === 403)
  story.same(
    'what is held while Maya thinks',
    await pane(scene, { session: agent.id, title: 'renewal briefs' }),
    [],
  )
  return request
}

async function isAllowed(scene: Scene, agent: Session, request: AccessRequest): Promise<void> {
  const { story, maya } = scene
  story.step('Maya allows all three, always')
  await answer(scene, request, 'allow_always')
  story.same(
    'what the session holds',
    await pane(scene, { session: agent.id, title: 'renewal briefs' }),
    namesOf(THREE),
  )
  const { items } = await maya.get('/rules', rules)
  story.same(
    'rules of Maya',
    items.map((r) => `${r.effect} ${r.permission} for ${r.template}`).sort(),
    THREE.map((i) => `allow ${i.permission} for renewal-briefs`).sort(),
  )
  const { authorization_details: carried, scope } = await agent.refresh()
  story.same(
    'grants in the re-issued token',
    carried.map((d) => d.permission).sort(),
    THREE.map((i) => i.permission).sort(),
  )
  story.same('scope of the re-issued token', scope, 'accounts:read')
}

async function works(scene: Scene, agent: Session): Promise<void> {
  const { story, services } = scene
  story.step('The agent works')
  const accounts = await call(scene, {
    who: 'agent',
    session: agent,
    service: services.accounts,
    path: '/accounts',
  })
  story.same('the accounts service now', accounts.status, 200)
  const rows = z
    .array(z.looseObject({ region: z.string(), phone: z.null() }))
    .parse(accounts.body.items)
  story.say(
    'accounts',
    `runs the condition that Lend gave it: ${rows.length} accounts, all in ${[...new Set(rows.map((r) => r.region))].join(', ')}, phone masked`,
  )
  story.holds(
    'there are rows, and all are of Maya’s region',
    rows.length > 0 && rows.every((r) => r.region === 'emea'),
  )
  const dashboard = (id: string) =>
    call(scene, {
      who: 'agent',
      session: agent,
      service: services.dashboards,
      path: `/dashboards/${id}`,
    })
  story.same('the dashboard that was granted', (await dashboard('q3-pipeline')).status, 200)
  const other = await dashboard('q4-forecast')
  story.same('another dashboard, checked live as each is', other.status, 403)
  // Maya has no such dashboard, so the refusal holds nothing out to ask for.
  story.same('what it could ask for instead', other.body.ask, undefined)
}

async function drafterWorks(scene: Scene, agent: Session): Promise<Session> {
  const { story, services } = scene
  story.step('The agent starts a read-only subagent')
  const started = await agent.tool(
    'iam.start_subagent',
    { template: 'email-drafter', read_only: true, task: 'Draft the renewal emails.' },
    child,
  )
  const drafter = await agent.claimChild(started.session_id)
  story.same('what the drafter inherits', namesOf(started.inherited), namesOf(THREE))
  story.holds(
    'all of it is read-only',
    started.inherited.every((g) => g.read_only),
  )
  story.holds(
    'its token says so too',
    drafter.token().authorization_details.every((d) => d.read_only === true),
  )
  await pane(scene, { session: drafter.id, title: 'renewal briefs › email drafter' })

  story.step('The drafter asks for something of its own')
  const draft = { name: 'renewal', subject: 'Your renewal', body: 'Dear customer, …' }
  const save = () =>
    call(scene, {
      who: 'drafter',
      session: drafter,
      service: services.mail,
      path: '/templates',
      post: draft,
    })
  story.same('saving a template before', (await save()).status, 403)
  const asked = await ask(scene, {
    session: drafter,
    who: 'drafter',
    items: [TEMPLATES_WRITE],
    reason: 'To save the drafts where Maya can edit them.',
  })
  story.same('outcome', outcomesOf(asked), ['pending mode_ask'])
  await answer(scene, await promptFor(scene, drafter.id), 'allow_once')
  await drafter.refresh()
  story.same(
    'what the drafter holds',
    await pane(scene, { session: drafter.id, title: 'renewal briefs › email drafter' }),
    namesOf([...THREE, TEMPLATES_WRITE]),
  )
  story.same('saving a template now', (await save()).status, 201)
  const parents = await agent.tool('iam.my_access', {}, myAccess)
  story.same('what the parent holds: nothing flows up', namesOf(parents.grants), namesOf(THREE))
  const parentSaves = await call(scene, {
    who: 'agent',
    session: agent,
    service: services.mail,
    path: '/templates',
    post: draft,
  })
  story.same('the parent saving a template', parentSaves.status, 403)
  return drafter
}

async function pricingIsSensitive(scene: Scene, drafter: Session): Promise<void> {
  const { story, maya, app } = scene
  story.step('The drafter asks for something sensitive, and Maya says no')
  const reason = 'To quote the new price in the email.'
  const asked = await ask(scene, { session: drafter, who: 'drafter', items: [PRICING], reason })
  story.same('outcome', outcomesOf(asked), ['pending sensitive'])
  const request = await promptFor(scene, drafter.id)
  story.same('whether the answer could be remembered', request.items[0]?.can_remember, false)
  await answer(scene, request, 'deny')
  const again = await ask(scene, {
    session: drafter,
    who: 'drafter',
    items: [PRICING],
    reason: 'Please?',
  })
  story.same('outcome of asking again', outcomesOf(again), ['refused denied_this_session'])

  story.step('It is asked even in bypass')
  const made = await maya.send('POST', '/sessions', session, {
    agent_id: scene.agentId,
    template: 'renewal-briefs',
    mode: 'bypass',
  })
  story.say('maya', 'starts a second session, in bypass')
  const second = await app.start({
    userToken: scene.appToken,
    template: 'renewal-briefs',
    sessionId: made.id,
  })
  const both = await ask(scene, {
    session: second,
    who: 'agent',
    items: [
      THREE[0] ?? PRICING,
      { permission: 'email:send', resource: 'domain/customer.example' },
      PRICING,
    ],
    reason,
  })
  story.same('outcomes in bypass', outcomesOf(both), [
    'granted allow_rule',
    'granted mode_bypass',
    'pending sensitive',
  ])
  const prompt = await promptFor(scene, second.id)
  const path = `/access-requests/${prompt.id}/decision`
  story.same(
    'allowing it always',
    await maya.statusOf('POST', path, decisionOf(prompt, 'allow_always')),
    422,
  )
  story.say('maya', 'deny')
  story.same('denying it', await maya.statusOf('POST', path, decisionOf(prompt, 'deny')), 200)
  await sendsMail(scene, second)
  story.same(
    'what the bypass session holds',
    (await pane(scene, { session: second.id, title: 'second session' })).includes(
      PRICING.permission,
    ),
    false,
  )
  await maya.send('POST', `/sessions/${second.id}/end`, z.unknown())
  story.holds(
    'the bypass session’s token is dead',
    !(await app.introspect(second.token().access_token)),
  )
  await second.close()
}

async function accessChanges(scene: Scene, agent: Session, drafter: Session): Promise<void> {
  const { story, adam, services } = scene
  story.step('That afternoon Maya loses the dashboard')
  const old = await agent.tokenFor(services.dashboards)
  const found = await adam.get('/admin/users?login=maya', users)
  const maya = found.items[0]?.id ?? ''
  const direct = await adam.get(`/admin/users/${maya}/permissions`, directPermissions)
  const permission = direct.items.find((p) => p.permission === 'dashboard:view')
  story.same('the permission that Maya has directly', permission?.resource, 'dashboard/q3-pipeline')
  await adam.send('DELETE', `/admin/users/${maya}/permissions/${permission?.id}`, z.unknown())
  story.say(
    'adam',
    'takes dashboard:view on dashboard/q3-pipeline from Maya; nobody touches the agent',
  )
  const two = namesOf(THREE.slice(0, 2))
  const { authorization_details: carried } = await agent.refresh()
  story.same('grants in the next token', carried.map((d) => d.permission).sort(), two)
  story.same(
    'what the session holds',
    await pane(scene, { session: agent.id, title: 'renewal briefs' }),
    two,
  )
  story.same(
    'what the drafter holds: its inherited grant went too',
    await pane(scene, { session: drafter.id, title: 'renewal briefs › email drafter' }),
    namesOf([...THREE.slice(0, 2), TEMPLATES_WRITE]),
  )
  const stale = await callWith(old, {
    service: services.dashboards,
    path: '/dashboards/q3-pipeline',
  })
  story.same('the dashboard with the token from before', stale.status, 401)
  const fresh = await call(scene, {
    who: 'agent',
    session: agent,
    service: services.dashboards,
    path: '/dashboards/q3-pipeline',
  })
  story.same('the dashboard with a new token', fresh.status, 403)
}

async function ends(scene: Scene, agent: Session, drafter: Session): Promise<void> {
  const { story, maya, app } = scene
  story.step('The session ends, and the subagent with it')
  await drafter.refresh()
  const result = await agent.tool('iam.end_session', { summary: 'Two briefs, one draft.' }, ended)
  story.say(
    'agent',
    `iam.end_session → ${result.sessions_ended} sessions ended, ${result.grants_revoked} grants revoked`,
  )
  story.same('sessions ended', result.sessions_ended, 2)
  for (const one of [agent, drafter]) {
    story.holds('its token is inactive', !(await app.introspect(one.token().access_token)))
    const mcp = await fetch(scene.mcp, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${one.token().access_token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    await mcp.body?.cancel()
    story.same('MCP with its token', mcp.status, 401)
    story.same('a re-issue', await one.refused(), 'invalid_grant')
    story.same(
      'what it holds',
      await pane(scene, {
        session: one.id,
        title: one === agent ? 'renewal briefs' : 'renewal briefs › email drafter',
      }),
      [],
    )
    await one.close()
  }
  story.same('saved rules, which stay', (await maya.get('/rules', rules)).items.length, 3)
}

/** Plays journey 2. Answers with the sessions that the audit will ask about. */
export async function journeyTwo(scene: Scene): Promise<readonly string[]> {
  scene.story.chapter('Journey 2: a user’s session, end to end')
  const agent = await startsWithNothing(scene)
  await isAllowed(scene, agent, await asks(scene, agent))
  await works(scene, agent)
  const drafter = await drafterWorks(scene, agent)
  await pricingIsSensitive(scene, drafter)
  await accessChanges(scene, agent, drafter)
  await ends(scene, agent, drafter)
  return [agent.id, drafter.id]
}
