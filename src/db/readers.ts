import type postgres from 'postgres'

class Silent extends Error {
  readonly code = 'CONNECT_TIMEOUT'
  constructor(millis: number) {
    super(`The database has not answered within ${millis} ms.`)
  }
}

/** The connections for statements outside transactions: a few, shared by all. */
export type Readers = {
  /** Those in use now. They are others after a silence: do not keep them. */
  readonly client: () => postgres.Sql
  /** Waits for a statement's answer, but not for ever. */
  readonly answered: <T>(ask: (client: postgres.Sql) => Promise<T>) => Promise<T>
  readonly close: () => Promise<void>
}

const CLOSE_SECONDS = 5

/**
 * A connection whose other end is gone without a word looks like one whose answer takes long, for a quarter of an hour. So
 * after a silence of `patienceMillis` new statements get new connections, and the old ones have as long again to finish.
 */
export function createReaders(open: () => postgres.Sql, patienceMillis: number): Readers {
  let client = open()
  const old = new Set<Promise<void>>()
  const replace = (silent: postgres.Sql): void => {
    if (silent !== client) return
    client = open()
    const ending = silent.end({ timeout: patienceMillis / 1000 }).catch(() => undefined)
    old.add(ending)
    void ending.finally(() => old.delete(ending))
  }
  return {
    client: () => client,
    answered: async (ask) => {
      const asked = client
      let late: NodeJS.Timeout | undefined
      const silence = new Promise<never>((_, reject) => {
        late = setTimeout(() => {
          replace(asked)
          reject(new Silent(patienceMillis))
        }, patienceMillis)
      })
      try {
        return await Promise.race([ask(asked), silence])
      } finally {
        clearTimeout(late)
      }
    },
    close: async () => {
      await Promise.all([...old, client.end({ timeout: CLOSE_SECONDS })])
    },
  }
}
