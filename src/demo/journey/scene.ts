import { type App, createApp, type Session } from './app.ts'
import type { Instance } from './instance.ts'
import {
  type AccessRequest,
  access,
  accessRequest,
  accessRequests,
  asked,
  credentials,
  type PersonApi,
  personApi,
} from './people.ts'
import type { Story } from './story.ts'

/** Everyone and everything that both journeys need. */
export type Scene = {
  readonly story: Story
  readonly instance: Instance
  readonly app: App
  readonly agentId: string
  readonly maya: PersonApi
  readonly adam: PersonApi
  readonly cleo: PersonApi
  /** Maya's access token of the agent's app: what the app exchanges. */
  readonly appToken: string
  readonly mcp: string
  readonly issuer: string
  /** Addresses of the demo's services. */
  readonly services: {
    readonly accounts: string
    readonly dashboards: string
    readonly contracts: string
    readonly mail: string
  }
}

export type Item = { readonly permission: string; readonly resource?: string }

export const THREE: readonly Item[] = [
  { permission: 'accounts:read' },
  { permission: 'accounts.rows:my_region' },
  { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
]
export const PRICING: Item = { permission: 'contracts.fields:pricing' }
export const TEMPLATES_WRITE: Item = { permission: 'email-templates:write' }
export const TASK = 'Prepare a brief on the accounts that renew this quarter.'

/**
 * Signs everybody in through the command line's door and sets the app up from the demo's
 * credentials.
 */
export async function setScene(story: Story, instance: Instance): Promise<Scene> {
  const given = credentials.parse(JSON.parse(await instance.lend('demo-credentials')))
  const agent = given.agents.find((one) => one.templates.includes('renewal-briefs'))
  const [enforcementPoint] = given.enforcement_points
  if (agent === undefined || enforcementPoint === undefined)
    throw new Error('the demo has no agent for renewal-briefs')
  const tokenOf = (user: string, client: string) =>
    instance.lend('demo-token', '--user', user, '--client', client)
  const person = async (user: string) =>
    personApi(`${given.issuer}/api`, await tokenOf(user, 'people'))
  const serviceAt = (end: string) => {
    const found = given.resource_servers.find(({ resource }) => resource.endsWith(end))
    if (found === undefined) throw new Error(`the demo has no resource server ${end}`)
    return found.resource
  }
  return {
    story,
    instance,
    app: await createApp({ issuer: given.issuer, mcp: given.mcp, agent, enforcementPoint }),
    agentId: agent.client_id,
    maya: await person('maya'),
    adam: await person('adam'),
    cleo: await person('cleo'),
    appToken: await tokenOf('maya', 'app'),
    mcp: given.mcp,
    issuer: given.issuer,
    services: {
      accounts: serviceAt('/demo/accounts'),
      dashboards: serviceAt('/demo/dashboards'),
      contracts: serviceAt('/demo/contracts'),
      mail: serviceAt('/demo/mail'),
    },
  }
}

export const nameOf = ({ permission, resource }: { permission: string; resource?: unknown }) =>
  typeof resource === 'string' ? `${permission} on ${resource}` : permission

export const namesOf = (
  items: readonly { readonly permission: string; readonly resource?: unknown }[],
): readonly string[] => items.map(nameOf).sort()

/** Shows the third pane as Maya sees it, and answers with what is in it. */
export async function pane(
  { story, maya }: Scene,
  of: { readonly session: string; readonly title: string },
): Promise<readonly string[]> {
  const { items } = await maya.get(`/sessions/${of.session}/access`, access)
  story.pane(
    of.title,
    items.map((grant) => ({
      permission: nameOf(grant),
      note: `${grant.read_only ? 'read-only, ' : ''}by ${grant.source.by}, used ${grant.uses}×`,
    })),
  )
  return namesOf(items)
}

export type Asked = { readonly items: readonly { outcome: string; reason: string }[] }

/** The agent asks through MCP; the story tells what came back, item by item. */
export async function ask(
  { story }: Scene,
  of: { readonly session: Session; readonly who: string; readonly items: readonly Item[] } & {
    readonly reason: string
  },
) {
  story.say(of.who, `iam.request_access ${of.items.map(nameOf).join(', ')}`)
  story.say('', `“${of.reason}”`)
  const result = await of.session.tool(
    'iam.request_access',
    { items: of.items, reason: of.reason },
    asked,
  )
  for (const item of result.items)
    story.say('lend', `${item.permission}: ${item.outcome} (${item.reason})`)
  return result
}

export const outcomesOf = (result: Asked): readonly string[] =>
  result.items.map(({ outcome, reason }) => `${outcome} ${reason}`)

/** The prompt as it stands in Maya's chat: exactly one is open, and it is this session's. */
export async function promptFor({ story, maya }: Scene, session: string): Promise<AccessRequest> {
  const { items } = await maya.get('/access-requests?status=pending', accessRequests)
  const [request] = items
  if (request === undefined || items.length !== 1)
    throw new Error(`there are ${items.length} open prompts, and there should be one`)
  story.same('the prompt’s session', request.session_id, session)
  story.say('prompt', `${request.path.join(' › ')} asks: “${request.reason}”`)
  for (const item of request.items.filter(({ outcome }) => outcome === 'pending')) {
    const marks = [`risk ${item.risk}`, ...(item.sensitive ? ['sensitive'] : [])].join(', ')
    story.say('', `□ ${item.title}${item.resource ? ` — ${item.resource}` : ''} (${marks})`)
  }
  return request
}

export type Answer = 'allow_once' | 'allow_always' | 'deny' | 'deny_always'

export const decisionOf = (request: AccessRequest, decision: Answer) => ({
  digest: request.digest,
  items: request.items
    .filter(({ outcome }) => outcome === 'pending')
    .map(({ id }) => ({ id, decision })),
})

/** Maya answers every open item of a prompt alike, and it is settled by that. */
export async function answer(
  { story, maya }: Scene,
  request: AccessRequest,
  decision: Answer,
): Promise<void> {
  story.say('maya', decision.replace('_', ' '))
  const settled = await maya.send(
    'POST',
    `/access-requests/${request.id}/decision`,
    accessRequest,
    decisionOf(request, decision),
  )
  story.same('the request after the answer', settled.status, 'settled')
  const allows = decision.startsWith('allow')
  const asWanted = settled.items.every(
    ({ outcome, decision_reason }) =>
      outcome === (allows ? 'granted' : 'refused') &&
      decision_reason === (allows ? 'allowed_by_user' : 'denied_by_user'),
  )
  story.holds('every item is decided by the answer', asWanted)
}

export type Called = { readonly status: number; readonly body: Readonly<Record<string, unknown>> }

/** A call of the agent to one of the services, with a token of its own for it. */
export async function call(
  { story }: Scene,
  of: {
    readonly who: string
    readonly session: Session
    readonly service: string
    readonly path: string
    readonly post?: object
  },
): Promise<Called> {
  const token = await of.session.tokenFor(of.service)
  const answer = await callWith(token, of)
  const method = of.post === undefined ? 'GET' : 'POST'
  story.say(of.who, `${method} ${new URL(of.service).pathname}${of.path} → ${answer.status}`)
  return answer
}

export async function callWith(
  token: string,
  of: { readonly service: string; readonly path: string; readonly post?: object },
): Promise<Called> {
  const answer = await fetch(`${of.service}${of.path}`, {
    method: of.post === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      ...(of.post === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(of.post === undefined ? {} : { body: JSON.stringify(of.post) }),
  })
  const body: unknown = await answer.json()
  return { status: answer.status, body: { ...(body as object) } }
}
