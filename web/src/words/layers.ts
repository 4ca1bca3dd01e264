import type { LayerOrEnd } from '../../../src/core/layers.ts'

/** What decides, by the names that every screen has for it. */
export const layer: Readonly<Record<LayerOrEnd, string>> = {
  catalog: 'Catalog',
  ceiling: 'Ceiling',
  never_delegable: 'Never delegable',
  user_access: 'The user’s own access',
  deny_rule: 'Deny rule',
  held: 'Held already',
  denied: 'Denied in this session',
  sensitive: 'Sensitive',
  ask_rule: 'Ask rule',
  reconsent: 'Consent once more',
  allow_rule: 'Allow rule',
  mode: 'Mode',
  answer: 'The user’s answer',
  time: 'Time: nobody answered',
  session_end: 'The session’s end',
}
