import { createClient } from '@redis/client'
import type { OpenBus } from '../ports.ts'

const CONNECT_MILLIS_MAX = 5_000
const AGAIN_MILLIS_MAX = 2_000
/** A peer that is gone without a word is noticed by a ping that nothing answers. */
const PING_MILLIS = 10_000
const SILENT_MILLIS_MAX = 30_000
const QUEUE_MAX = 100

/** One deployment's channel: several may share a server, and Redis's database numbers do not part channels. */
export const channelOf = (publicUrl: string): string => `lend:${publicUrl}`

const clientOf = (url: string, isPatient: boolean) =>
  createClient({
    url,
    // What cannot be sent now is not worth sending later.
    disableOfflineQueue: true,
    commandsQueueMaxLength: QUEUE_MAX,
    pingInterval: PING_MILLIS,
    socket: {
      connectTimeout: CONNECT_MILLIS_MAX,
      socketTimeout: SILENT_MILLIS_MAX,
      reconnectStrategy: (tries) =>
        isPatient ? Math.min(50 * 2 ** Math.min(tries, 10), AGAIN_MILLIS_MAX) : false,
    },
  })

/**
 * Kicks through Redis or Valkey, in one channel: no key is ever written. Opens whether or not the server is there, and
 * connects again for as long as it takes.
 */
export const redisBus =
  (url: string, channel: string): OpenBus =>
  async ({ onKick, onError }) => {
    const [sender, listener] = [clientOf(url, true), clientOf(url, true)]
    const tried = new Promise<void>((done) => {
      listener.on('error', (error: unknown) => {
        onError(error)
        done()
      })
      // Each time it has connected: listens (again), and looks, since kicks may have been missed.
      listener.on('ready', () => {
        listener.subscribe(channel, onKick).then(onKick, onError).finally(done)
      })
    })
    sender.on('error', onError)
    sender.connect().catch(onError)
    listener.connect().catch(onError)
    await tried
    return {
      send: async () => {
        await sender.publish(channel, '')
      },
      close: async () => {
        for (const client of [sender, listener]) if (client.isOpen) client.destroy()
      },
    }
  }

/**
 * Whether a kick comes through: sends one in the deployment's channel and hears it. Throws what went wrong; takes at most
 * `millis`.
 */
export async function tryRedis(url: string, channel: string, millis: number): Promise<void> {
  const [sender, listener] = [clientOf(url, false), clientOf(url, false)]
  let late: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_, reject) => {
    late = setTimeout(() => reject(new Error('no answer in time')), millis)
  })
  const heard = async () => {
    await Promise.all([sender.connect(), listener.connect()])
    await new Promise<void>((resolve, reject) => {
      listener
        .subscribe(channel, () => resolve())
        .then(() => sender.publish(channel, ''))
        .catch(reject)
    })
  }
  // What they say by event, `connect` says too.
  for (const client of [sender, listener]) client.on('error', () => undefined)
  try {
    await Promise.race([heard(), tooLate])
  } finally {
    clearTimeout(late)
    for (const client of [sender, listener]) if (client.isOpen) client.destroy()
  }
}
