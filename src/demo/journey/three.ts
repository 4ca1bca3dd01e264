import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ActivityLine, accessRequests, ended, records, users, verification } from './people.ts'
import { ask, call, namesOf, outcomesOf, pane, type Scene, TASK, THREE } from './scene.ts'

/** Journey 3: the next day, and the audit. */

async function nextDay(scene: Scene): Promise<string> {
  const { story, app, maya, services } = scene
  story.step('The next day, a new session holds nothing')
  const agent = await app.start({
    userToken: scene.appToken,
    template: 'renewal-briefs',
    task: TASK,
  })
  story.same('authorization_details', agent.token().authorization_details, [])
  story.same('what it holds', await pane(scene, { session: agent.id, title: 'renewal briefs' }), [])

  story.step('Two of three are granted by rule, without a prompt')
  const asked = await ask(scene, {
    session: agent,
    who: 'agent',
    items: THREE,
    reason: 'To go on with the briefs.',
  })
  story.same('outcomes', outcomesOf(asked), [
    'granted allow_rule',
    'granted allow_rule',
    'refused user_lacks_access',
  ])
  story.same('when asking again can help', asked.items[2]?.retry, 'user_access_changes')
  const { items } = await maya.get('/access-requests?status=pending', accessRequests)
  story.same('open prompts', items.length, 0)
  story.same(
    'what it holds',
    await pane(scene, { session: agent.id, title: 'renewal briefs' }),
    namesOf(THREE.slice(0, 2)),
  )
  await agent.refresh()
  const accounts = await call(scene, {
    who: 'agent',
    session: agent,
    service: services.accounts,
    path: '/accounts',
  })
  story.same('the accounts service', accounts.status, 200)
  await agent.tool('iam.end_session', {}, ended)
  await agent.close()
  return agent.id
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

const itemsIn = (items: unknown): string => {
  const count = Array.isArray(items) ? items.length : 0
  return count === 1 ? '1 item' : `${count} items`
}

/** One line of the audit's answer, or none for what the question was not about. */
function told({ type, data }: ActivityLine): readonly string[] | null {
  const what = [data.permission, data.resource].map(text).filter(Boolean).join(' on ')
  switch (type) {
    case 'access.requested':
      return ['asked', itemsIn(data.items), `“${text(data.reason)}”`]
    case 'access.decided':
      return [
        'decided',
        what,
        `${text(data.outcome)}: ${text(data.reason)}, by ${text(data.decided_by)}`,
      ]
    case 'grant.created':
      return ['granted', what, `by ${text(data.source)}`]
    case 'grant.ended':
      return ['ended', what, text(data.reason)]
    case 'call.allowed':
    case 'call.denied':
      return [type === 'call.allowed' ? 'called' : 'refused', what, text(data.target)]
    default:
      return null
  }
}

/** Enforcement points report in the background: what was called is there a moment later. */
async function recordsOf(scene: Scene, session: string): Promise<readonly ActivityLine[]> {
  for (let attempt = 0; ; attempt++) {
    const { items } = await scene.cleo.get(`/activity?session=${session}&limit=200`, records)
    const over = items.some(({ type }) => type === 'session.ended')
    if ((over && items.some(({ type }) => type === 'call.allowed')) || attempt >= 40)
      return [...items].reverse()
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

function decidedBy(lines: readonly ActivityLine[]): readonly string[] {
  return lines
    .filter(({ type }) => type === 'access.decided')
    .map(({ data }) => `${text(data.permission)} ${text(data.outcome)} ${text(data.decided_by)}`)
}

async function audit(scene: Scene, sessions: readonly string[]): Promise<void> {
  const { story, cleo } = scene
  story.step('Compliance asks what the agent did for Maya')
  const found = await cleo.get('/admin/users?login=maya', users)
  const maya = found.items[0]?.id ?? ''
  const started = await cleo.get(`/activity?user=${maya}&type=session.started`, records)
  story.say('cleo', `${started.items.length} sessions of Maya’s`)
  const known = started.items.map((r) => r.session_id)
  story.holds(
    'all that were played are among them',
    sessions.every((id) => known.includes(id)),
  )
  const lines: ActivityLine[][] = []
  for (const session of sessions) {
    const own = await recordsOf(scene, session)
    lines.push([...own])
    story.say('record', `${own[0]?.template ?? ''} ${session}`)
    story.table(own.flatMap((line) => [told(line) ?? []]).filter((row) => row.length > 0))
  }
  const [first = [], drafter = [], next = []] = lines
  story.same(
    'decided in the first session',
    decidedBy(first),
    THREE.map((i) => `${i.permission} granted prompt`),
  )
  story.same('decided for the drafter', decidedBy(drafter), [
    'email-templates:write granted prompt',
    'contracts.fields:pricing refused prompt',
    'contracts.fields:pricing refused policy',
  ])
  story.same('decided the next day', decidedBy(next), [
    'accounts:read granted rule',
    'accounts.rows:my_region granted rule',
    'dashboard:view refused policy',
  ])
  for (const own of lines)
    for (const type of ['access.requested', 'grant.created', 'call.allowed', 'session.ended'])
      story.holds(
        `${type} is on the record`,
        own.some((line) => line.type === type),
      )
  story.holds(
    'the call that was turned away is, too',
    first.some(({ type }) => type === 'call.denied'),
  )
  const lost = first.find(
    ({ type, data }) => type === 'grant.ended' && data.permission === 'dashboard:view',
  )
  story.same('why the dashboard went', lost?.data.reason, 'user_lost_access')
}

async function verify(scene: Scene): Promise<void> {
  const { story, cleo, instance } = scene
  story.step('Nothing in the record was changed')
  const verified = await cleo.get('/activity/verify', verification)
  story.say('lend', `${verified.records} records verified`)
  story.same('the chains', verified.ok, true)
  const folder = mkdtempSync(join(tmpdir(), 'lend-journey-'))
  try {
    const file = join(folder, 'activity.ndjson')
    const exported = await cleo.text('/activity/export?format=ndjson')
    writeFileSync(file, exported)
    story.say('cleo', `lend verify-activity: ${await instance.lend('verify-activity', file)}`)
    // One word of one reason, changed by somebody with a text editor.
    const forged = exported.replace('To go on with the briefs.', 'To go on with the price.')
    story.holds('there is something to forge', forged !== exported)
    writeFileSync(file, forged)
    const caught = await instance.lend('verify-activity', file).then(
      () => false,
      () => true,
    )
    story.holds('a changed word is found out, offline', caught)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Plays journey 3. `sessions` are those of the day before. */
export async function journeyThree(scene: Scene, sessions: readonly string[]): Promise<void> {
  scene.story.chapter('Journey 3: the next day, and the audit')
  const next = await nextDay(scene)
  await audit(scene, [...sessions, next])
  await verify(scene)
}
