import { basic, type Credentials } from './connection.ts'
import { matches } from './filter.ts'
import { type HeldGrant, isRecord, type TokenFacts } from './token.ts'

/** Checks that Lend answers live: one asset, and the rows and fields of one entity. */
export type AssetSaid =
  | { readonly grant: HeldGrant }
  | {
      readonly denied: 'session_over' | 'not_granted' | 'unavailable'
      /** Whether asking the user for it could help. */
      readonly askable: boolean
    }

type Row = Readonly<Record<string, unknown>>

/** What one grant shows: alternatives, never multiplied together. */
export type DataPart = {
  readonly grant_id: string
  readonly permission: string
  readonly rows: Row
  /** The fields to show of these rows, and no others. */
  readonly fields: readonly string[]
  /**
   * The same rows as a condition for `where`, over columns named as the fields, with what the user is blocked from cut out. Text
   * columns are compared as text, numeric as numbers, boolean as booleans; one of another type is an error.
   */
  readonly sql: {
    readonly text: string
    readonly params: readonly (string | number | boolean)[]
  }
}

export type Item = { readonly permission: string; readonly resource?: string }

export type DataShown = {
  readonly parts: readonly DataPart[]
  /** Fields that are hidden from this user whatever is held. */
  readonly masked: readonly string[]
  /** A row that any of these matches is not there, whatever a part's `rows` say. */
  readonly blocked: readonly Row[]
}

export type DataSaid =
  | { readonly shown: DataShown }
  | {
      readonly denied: 'session_over' | 'not_granted' | 'unavailable'
      readonly ask: readonly Item[]
    }

const ANSWER_MILLIS_MAX = 3000
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every(isText)
const isParam = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

/** Both kinds of "this token is no good now" are one to the caller: it should be re-issued. */
const OVER = new Set<unknown>(['token_invalid', 'session_over', 'frozen'])

function partOf(value: unknown): DataPart | null {
  if (!isRecord(value) || !isRecord(value.rows) || !isRecord(value.sql)) return null
  const { grant_id, permission, rows, fields, sql } = value
  const { text, params } = sql
  if (!isText(grant_id) || !isText(permission) || !isTexts(fields) || !isText(text)) return null
  if (!Array.isArray(params) || !params.every(isParam)) return null
  return { grant_id, permission, rows, fields, sql: { text, params } }
}

const itemOf = (value: unknown): readonly Item[] => {
  if (!isRecord(value) || !isText(value.permission)) return []
  const { permission, resource } = value
  return [{ permission, ...(isText(resource) ? { resource } : {}) }]
}

const itemsIn = (ask: unknown): readonly Item[] =>
  isRecord(ask) && Array.isArray(ask.items) ? ask.items.flatMap(itemOf) : []

/** Null: a member that is not understood may be a limit, so the answer is none. */
function shownIn(said: Row): DataShown | null {
  const { parts, masked, blocked } = said
  if (!Array.isArray(parts) || !isTexts(masked) || !Array.isArray(blocked)) return null
  const read = parts.map(partOf)
  return read.every((part) => part !== null) && blocked.every(isRecord)
    ? { parts: read, masked, blocked }
    : null
}

/**
 * Asks Lend with the enforcement point's own credentials. Neither call ever throws: what cannot be found out, or is not
 * understood, is `unavailable`, and so nothing is allowed (I19).
 */
export function asking(of: {
  readonly issuer: string
  readonly credentials: Credentials | undefined
  readonly fetch: typeof globalThis.fetch
}) {
  const { issuer, credentials, fetch } = of

  async function post(path: string, body: object): Promise<Row | null> {
    if (credentials === undefined) return null
    try {
      const answer = await fetch(`${issuer}${path}`, {
        method: 'POST',
        headers: {
          authorization: basic(credentials),
          'content-type': 'application/json',
          accept: 'application/json',
        },
        body: JSON.stringify(body),
        redirect: 'error',
        signal: AbortSignal.timeout(ANSWER_MILLIS_MAX),
      })
      const said: unknown = answer.ok ? await answer.json() : null
      return isRecord(said) ? said : null
    } catch {
      return null
    }
  }

  return {
    /** SPEC section 9: the session holds it and its user has it now. */
    asset: async (
      token: string,
      facts: TokenFacts,
      wanted: { readonly permission: string; readonly resource: string },
    ): Promise<AssetSaid> => {
      const { permission, resource } = wanted
      const cut = resource.indexOf('/')
      const said = await post('/access/v1/evaluation', {
        subject: { type: 'agent_session', id: facts.session, properties: { token } },
        action: { name: permission },
        resource: { type: resource.slice(0, cut), id: resource.slice(cut + 1) },
      })
      const context = isRecord(said?.context) ? said.context : {}
      const { grant_id, reason, ask } = context
      if (said?.decision === true && isText(grant_id) && context.permission === permission) {
        const actions = [permission.slice(permission.lastIndexOf(':') + 1)]
        return {
          grant: { type: 'lend_asset', permission, actions, identifier: resource, grant_id },
        }
      }
      if (said?.decision !== false) return { denied: 'unavailable', askable: false }
      const denied = OVER.has(reason) ? 'session_over' : 'not_granted'
      return { denied, askable: itemsIn(ask).length > 0 }
    },
    data: async (
      token: string,
      facts: TokenFacts,
      wanted: { readonly entity: string; readonly action: string },
    ): Promise<DataSaid> => {
      const { entity, action } = wanted
      const said = await post('/enforce/data', { token, entity, action })
      if (said === null) return { denied: 'unavailable', ask: [] }
      if (OVER.has(said.reason)) return { denied: 'session_over', ask: [] }
      const shown = shownIn(said)
      const asked =
        said.session_id === facts.session && said.entity === entity && said.action === action
      if (shown === null || !asked) return { denied: 'unavailable', ask: [] }
      const held = said.reason === 'granted' || said.reason === 'restricted'
      return held ? { shown } : { denied: 'not_granted', ask: itemsIn(said.ask) }
    },
  }
}

/**
 * A row as this session may see it, for services that hold their rows in memory: the fields of every part that shows it; null
 * when none does or a block hides it. Throws on a filter that is not understood; the caller then shows nothing.
 */
export function rowShown(shown: DataShown, row: Row): Row | null {
  if (shown.blocked.some((block) => matches(block, row))) return null
  const parts = shown.parts.filter((part) => matches(part.rows, row))
  if (parts.length === 0) return null
  const fields = new Set(parts.flatMap((part) => part.fields))
  return Object.fromEntries(Object.entries(row).filter(([name]) => fields.has(name)))
}
