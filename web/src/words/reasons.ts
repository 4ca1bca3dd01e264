import type { DecisionReason } from '../../../src/core/reason.ts'

/** Every reason that the server can give, to a person: what happened, and below why and what would change it. */
export const outcome: Record<DecisionReason, string> = {
  unknown_permission: 'Refused: no such permission',
  outside_ceiling: 'Refused: outside what this template may ask for',
  never_delegable: 'Refused: never lent to an agent',
  user_lacks_access: 'Refused: you do not have it',
  deny_rule: 'Refused by your rule',
  already_held: 'Held already',
  denied_this_session: 'Refused: you said no in this session',
  sensitive: 'Asked: sensitive',
  ask_rule: 'Asked by your rule',
  reconsent: 'Asked once more',
  allow_rule: 'Granted by your rule',
  mode_auto: 'Granted by mode Auto',
  mode_bypass: 'Granted by mode Bypass',
  mode_ask: 'Asked',
  allowed_by_user: 'Allowed by you, this session',
  denied_by_user: 'Denied by you',
  expired: 'Expired, not answered',
  cancelled: 'Withdrawn',
}

/** What, because of which layer, and what would change it. */
export const why: Record<DecisionReason, string> = {
  unknown_permission:
    'The catalog has no permission of this name, so nobody can lend it. The agent may have made a mistake.',
  outside_ceiling:
    'The template that this agent runs on, as your organisation turned it on, does not include it. A new version of the template, or your organisation’s admin, could change that. You cannot, and need not.',
  never_delegable: 'No agent can ever hold this. If it has to be done, you do it yourself.',
  user_lacks_access:
    'You do not have this access yourself at the moment, so it cannot be lent. If you are given it, the agent can ask again.',
  deny_rule:
    'You have a rule that always refuses this. Delete it on the Rules page to be asked again.',
  already_held: 'The session held it already, so there was nothing to ask.',
  denied_this_session:
    'You said no to this earlier in this session, and are not asked twice. A new session may ask again.',
  sensitive:
    'Sensitive: you are asked every time, in every mode, and the answer is never remembered.',
  ask_rule: 'You have a rule to be asked about this each time.',
  reconsent: 'The template allows more now than when you said always, so you are asked once more.',
  allow_rule:
    'You said always to this before, so it was granted for this session without asking. The rule is on the Rules page.',
  mode_auto: 'This session runs in mode Auto, which grants low-risk items without asking.',
  mode_bypass:
    'This session runs in mode Bypass, which grants what is not sensitive without asking.',
  mode_ask: 'This session runs in mode Ask: you are asked about everything that no rule answers.',
  allowed_by_user: 'You allowed it. It is held until the session ends, or until you take it back.',
  denied_by_user: 'You said no. The agent was told, and goes on without it.',
  expired: 'Nobody answered in time. That is not a no: the agent may ask again.',
  cancelled:
    'The question was withdrawn before it was answered: the agent or its session ended, or it no longer wanted it.',
}
