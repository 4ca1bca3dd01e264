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

type Row = {
  readonly outcome: Outcome
  readonly retry: Retry
  /** To the agent that asked. */
  readonly says: string
  /** To people who look at it, in the record or beforehand: the agent's person is somebody else there. */
  readonly tells: string
}

export const REASONS = {
  unknown_permission: {
    outcome: 'refused',
    retry: 'never',
    says: 'No permission has this id. Look it up with iam.describe_permissions.',
    tells: 'The catalog has no permission with this id.',
  },
  outside_ceiling: {
    outcome: 'refused',
    retry: 'new_template_version',
    says: 'This kind of agent may never ask for it: it is outside what the template, as this organisation turned it on, allows.',
    tells: 'It is outside what the template allows, as the organisation turned it on.',
  },
  never_delegable: {
    outcome: 'refused',
    retry: 'never',
    says: 'No agent can ever hold this permission. The person has to do it themselves.',
    tells: 'No agent can ever hold this permission.',
  },
  user_lacks_access: {
    outcome: 'refused',
    retry: 'user_access_changes',
    says: 'The user does not have this access now, so it cannot be lent.',
    tells: 'The person does not have this access themselves, so it cannot be lent.',
  },
  deny_rule: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user has a rule that always refuses this.',
    tells: 'A rule of the person always refuses it. They are not asked.',
  },
  already_held: {
    outcome: 'granted',
    retry: 'never',
    says: 'This session holds it already.',
    tells: 'The session holds it already.',
  },
  denied_this_session: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user said no to this in this session. Go on without it.',
    tells: 'The person said no to it earlier in this session. They are not asked again.',
  },
  sensitive: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'This is sensitive, so the user is asked every time.',
    tells: 'It is marked as sensitive, so the person is asked, in every mode.',
  },
  ask_rule: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The user has a rule to be asked about this.',
    tells: 'A rule of the person says that they want to be asked.',
  },
  reconsent: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The template allows more than when the user said always, so the user is asked once more.',
    tells:
      'A rule of the person allows it, but the template allows more since then, so they are asked once more.',
  },
  allow_rule: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session by a rule of the user.',
    tells: 'A rule of the person allows it without a question.',
  },
  mode_auto: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session: it is low risk and the session runs in auto mode.',
    tells: 'It is low risk and the session runs in mode Auto, so it is lent without a question.',
  },
  mode_bypass: {
    outcome: 'granted',
    retry: 'never',
    says: 'Granted for this session: the session runs in bypass mode.',
    tells: 'The session runs in mode Bypass, so it is lent without a question.',
  },
  mode_ask: {
    outcome: 'asked',
    retry: 'user_answers',
    says: 'The user is asked.',
    tells: 'Nothing decides it without the person, so they are asked.',
  },
} as const satisfies Record<string, Row>

export type Reason = keyof typeof REASONS

/** The four ends of a prompt. Each is different to the user and to the agent; none stands for another. */
export const ENDS = {
  allowed_by_user: {
    outcome: 'granted',
    retry: 'never',
    says: 'The user allowed it.',
    tells: 'The person was asked, and allowed it.',
  },
  denied_by_user: {
    outcome: 'refused',
    retry: 'never',
    says: 'The user said no. Go on without it.',
    tells: 'The person was asked, and said no.',
  },
  expired: {
    outcome: 'refused',
    retry: 'later',
    says: 'Nobody answered in time. It was not denied; it may be asked again.',
    tells: 'The person was asked, and nobody answered in time.',
  },
  cancelled: {
    outcome: 'refused',
    retry: 'never',
    says: 'The question was withdrawn before it was answered.',
    tells: 'The person was asked, and the question was withdrawn before they answered.',
  },
} as const satisfies Record<string, Row>

export type End = keyof typeof ENDS

/** Why an item stands as it does: a row of the decision or an end of its prompt. A closed list. */
export type DecisionReason = Reason | End

export const DECISION_REASONS = [...Object.keys(REASONS), ...Object.keys(ENDS)]

export function rowOf(reason: DecisionReason): Row {
  return { ...REASONS, ...ENDS }[reason]
}
