import type { Options } from '../options.ts'
import { withPerson } from '../support/person.ts'
import { type Compared, median } from '../support/rounds.ts'

const MILLIS_MAX = 300
/** One agent may run 20 sessions for one person; each is ended before the next begins. */
const EACH = 10

/**
 * In the browser, without the page: starts a session with the reference agent app, waits for its first prompt, answers it,
 * and measures until the app says what its tool call came to. Text, since it runs there and not here.
 */
const ANSWERED = `(async () => {
  const api = '/t/acme/api', app = '/app/t/acme/api'
  const ask = async (url, body) => {
    const sent = body === undefined ? {} :
      { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    const response = await fetch(url, sent)
    if (!response.ok) throw new Error(url + ': ' + response.status + ' ' + await response.text())
    return response.json()
  }
  const { agent } = await ask(app + '/me')
  const task = 'Prepare renewal briefs for my accounts that renew this quarter'
  const session = await ask(api + '/sessions', { agent_id: agent.id, template: 'renewal-briefs', task })
  await ask(app + '/runs', { session_id: session.id, task })
  const source = new EventSource(app + '/runs/' + session.id + '/events')
  const step = (wanted) => new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('the agent does not go on')), 30000)
    const heard = (event) => {
      const { message } = JSON.parse(event.data)
      if (!message.step || !wanted(message)) return
      clearTimeout(late)
      source.removeEventListener('message', heard)
      resolve({ message, at: performance.now() })
    }
    source.addEventListener('message', heard)
  })
  const asked = await step((m) => m.step.status === 'running' && m.step.request_id)
  const request = await ask(api + '/access-requests/' + asked.message.step.request_id)
  const items = request.items.filter((i) => i.outcome === 'pending').map(({ id }) => ({ id, decision: 'allow_once' }))
  const result = step((m) => m.id === asked.message.id && m.step.status !== 'running')
  // The agent waits by now, as it does for a person who reads.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const from = performance.now()
  await ask(api + '/access-requests/' + request.id + '/decision', { digest: request.digest, items })
  const { message, at } = await result
  source.close()
  if (message.step.status !== 'done') throw new Error('the tool call ended as ' + message.step.status)
  await ask(api + '/sessions/' + session.id + '/end', {})
  return at - from
})()`

/** P1: from a person's answer to the agent's tool result, through the reference agent app, as its page hears of it. */
export async function p1(options: Options): Promise<readonly Compared[]> {
  return withPerson(async ({ lend, page }) => {
    // A document of the same origin with nothing of the page in it.
    await page.goto(`${lend.origin}/openapi.json`)
    const each = options.quick ? 2 : EACH
    const once = async () => {
      const all: number[] = []
      for (let i = 0; i < each; i++) all.push((await page.evaluate(ANSWERED)) as number)
      return { answered: median(all) }
    }
    await once()
    const rounds = []
    for (let i = 0; i < options.rounds; i++) {
      rounds.push(await once())
      process.stdout.write('.')
    }
    const lendMillis = median(rounds.map((round) => round.answered))
    return [
      {
        row: 'P1',
        what: 'answer to a prompt → the agent’s tool result, reference app',
        unit: 'ms',
        lend: lendMillis,
        other: null,
        ratio: null,
        reach: `< ${MILLIS_MAX} ms`,
        met: lendMillis < MILLIS_MAX,
        rounds,
      },
    ]
  })
}
