/**
 * Every way an item can be decided, strongest first: the order is the rule (SPEC section 4). Outcome and retry are
 * looked up here and nowhere else, so a reason without an outcome does not compile.
 */
export const OUTCOMES = ['granted', 'refused', 'asked'] as const
export type Outcome = (typeof OUTCOMES)[number]

export const RETRIES = [
  'never',
  'user_answers',
  'user_access_changes',
  'new_template_version',
  'later',
] as const
export type Retry = (typeof RETRIES)[number]

type Row = { readonly outcome: Outcome; readonly retry: Retry; readonly says: string }

export const REASONS = {
  unknown_permission: {
    outcome: 'refused',
    retry: 'never',
    says: 'No permission has this id. Look it up with iam.describe_permissions.',
  },
  outside_ceiling: {
    outcome: 'refused',
    retry: 'new_template_version',
    says: 'This kind of agent may never ask for it: it is outside what the template, as this organisation turned it on, allows.',
  },
  never_delegable: {
    outcome: 'refused',
    retry: 'never',
    says: 'No agent can ever hold this permission. The person has to do it themselves.',
  },
  user_lacks_access: {
    outcome: 'refused',
    retry: 'user_access_changes',
    says: 'The user does not have this access now, so it cannot be lent.',
  },
  deny_rule: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user has a rule that always refuses this.',
  },
  already_held: {
    outcome: 'granted',
    retry: 'never',
    says: 'This session holds it already.',
  },
  denied_this_session: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user said no to this in this session. Go on without it.',
  },
  sensitive: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'This is sensitive, so the user is asked every time.',
  },
  ask_rule: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The user has a rule to be asked about this.',
  },
  reconsent: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The template allows more than when the user said always, so the user is asked once more.',
  },
  allow_rule: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session by a rule of the user.',
  },
  mode_auto: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session: it is low risk and the session runs in auto mode.',
  },
  mode_bypass: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session: the session runs in bypass mode.',
  },
  mode_ask: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The user is asked.',
  },
} as const satisfies Record<string, Row>

export type Reason = keyof typeof REASONS

/** The four ends of a prompt. Each is different to the user and to the agent; none stands for another. */
export const ENDS = {
  allowed_by_user: { outcome: 'granted', retry: 'never', says: 'The user allowed it.' },
  denied_by_user: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user said no. Go on without it.',
  },
  expired: {
    outcome: 'refused',
    retry: 'later',
    says: 'Nobody answered in time. It was not denied; it may be asked again.',
  },
  cancelled: {
    outcome: 'refused',
    retry: 'never',
    says: 'The question was withdrawn before it was answered.',
  },
} as const satisfies Record<string, Row>

export type End = keyof typeof ENDS

/** Why an item stands as it does: a row of the decision or an end of its prompt. A closed list. */
export type DecisionReason = Reason | End

export const DECISION_REASONS = [...Object.keys(REASONS), ...Object.keys(ENDS)]

export function rowOf(reason: DecisionReason): Row {
  return { ...REASONS, ...ENDS }[reason]
}
