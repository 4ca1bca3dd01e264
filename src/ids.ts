import { randomBytes } from 'node:crypto'
import { v7 } from 'uuid'
import { ID_PREFIXES, type Ids } from './ports.ts'

/** Time-ordered, so that rows made together lie together; 74 random bits, so that none can be guessed. */
export const systemIds: Ids = {
  id: <Brand extends string>(of: keyof typeof ID_PREFIXES) =>
    `${ID_PREFIXES[of]}_${v7().replaceAll('-', '')}` as Brand,
  secret: () => randomBytes(32).toString('base64url'),
}

export const systemClock = { now: () => Date.now() }
