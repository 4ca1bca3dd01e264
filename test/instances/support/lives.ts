import { setTimeout as pause } from 'node:timers/promises'
import { type Client, started } from './client.ts'

const REST_MILLIS = 50

/** A session's whole life, again and again until it is over; what was not as it should be is said. How many there were. */
export async function live(
  client: Client,
  wrong: string[],
  isOver: () => boolean,
): Promise<number> {
  let lives = 0
  const ok = (what: string, got: { status: number }) => {
    if (got.status !== 200) wrong.push(`${what}: ${JSON.stringify(got)}`)
    return got.status === 200
  }
  while (!isOver()) {
    const begun = await client.start()
    if (!ok('start', begun)) continue
    const session = started(begun)
    const asked = await client.ask(session.access_token)
    if (ok('ask', asked)) ok('answer', await client.answer(asked.result?.request_id ?? ''))
    const again = await client.reissue(session.refresh_token)
    if (ok('re-issue', again) && again.body.authorization_details?.length !== 1)
      wrong.push(`holds ${JSON.stringify(again.body.authorization_details)}`)
    ok('revoke', await client.revoke(session.refresh_token))
    lives++
    await pause(REST_MILLIS)
  }
  return lives
}
