import type { ActivityRecord } from '../api/staff.ts'
import { plain } from '../lib/text.ts'
import { activityWords as says } from '../words/activity.ts'

/** A record in words. What others wrote goes through `plain`; what is not known stands as it is. */
export type Titles = ReadonlyMap<string, string>

const text = (value: unknown): string => (typeof value === 'string' ? plain(value) : '')

export const titleIn = (titles: Titles, permission: string): string =>
  plain(titles.get(permission) ?? permission)

export const reasonWords = (reason: string): string => says.reason[reason] ?? plain(reason)
export const byWords = (by: string): string => says.by[by] ?? plain(by)
export const endedWords = (reason: string): string => says.ended[reason] ?? plain(reason)

/** What it is about: the permission by its title, and on what. */
export function aboutWords({ data }: ActivityRecord, titles: Titles): string {
  const permission = text(data.permission)
  // What an admin changed is named as the record has it: `activity.exported`.
  const about = permission === '' ? text(data.what) : titleIn(titles, permission)
  return [about, text(data.resource)].filter(Boolean).join(', ')
}

/** How it came out, and through what. */
export function howWords({ type, data }: ActivityRecord): string {
  const reason = text(data.reason)
  switch (type) {
    case 'access.decided':
      return [text(data.outcome), byWords(text(data.decided_by)), reasonWords(reason)].join(', ')
    case 'grant.created':
      return says.grantFrom(byWords(text(data.source)))
    case 'grant.ended':
      return endedWords(reason)
    case 'session.ended':
      return says.sessionEnd[reason] ?? reason
    case 'access.requested':
      return reason === '' ? '' : `“${reason}”`
    default:
      return [text(data.outcome), reason === '' ? '' : reasonWords(reason)]
        .filter(Boolean)
        .join(', ')
  }
}

const ESCAPED = /[^\P{C}\n]/gu

/** JSON as it is, with every character that cannot be seen written out. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(ESCAPED, (c) =>
    [...Array(c.length).keys()]
      .map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  )
