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
  const working = step((m) => m.step.tool === 'iam_request_access')
  // As the page learns of it: from Lend. The app's own step names the request only when it has waited for a while.
  const pending = async () => {
    for (let look = 0; look < 600; look++) {
      const found = await ask(api + '/access-requests?status=pending&session_id=' + session.id)
      if (found.items.length > 0) return found.items[0]
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    throw new Error('the agent asks for nothing')
  }
  const [asked, request] = await Promise.all([working, pending()])
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
