import { count } from '../lib/text.ts'

/** Approvals, rules, my agents and template changes. */
export const pageWords = {
  approvals: {
    title: 'Approvals',
    lead: 'All that waits for your answer, oldest first.',
    list: 'Requests',
    failed: 'What waits could not be loaded',
    none: 'Nothing is waiting for you',
    noneWhy:
      'When an agent needs something that no rule or mode answers, it is here and in its session.',
    toSessions: 'To your sessions',
    openSession: 'Open the session',
    oneTitle: 'Request',
    one: (who: string, pending: boolean) =>
      pending ? `${who} needs your answer` : `Request of ${who}`,
    gone: 'There is no such request',
    goneWhy:
      'Or it is not one of yours: only the person an agent works for can see and answer what it asks.',
    all: 'All approvals',
    oneFailed: 'The request could not be loaded',
    canClose: 'You can close this page.',
    others: (n: number) => `${n} more waiting`,
  },
  rules: {
    title: 'Rules',
    lead: 'Rules answer questions for you. They never hold access.',
    column: {
      effect: 'Answer',
      permission: 'Permission',
      template: 'Template',
      created: 'Made',
      expires: 'Until',
      state: 'State',
    },
    effect: { allow: 'Allow', deny: 'Deny', ask: 'Ask' },
    effectMeans: {
      allow: 'Allow without asking',
      deny: 'Deny without asking',
      ask: 'Always ask, in every mode',
    },
    from: 'from this request',
    untilRemoved: 'you remove it',
    active: 'Active',
    suspended: 'Asks again',
    suspendedWhy:
      'The template allows more now than when you said always, so you are asked once more.',
    add: 'New rule',
    save: 'Save rule',
    saved: (title: string) => `Rule saved: ${title}.`,
    notSaved: 'Not saved.',
    delete: 'Delete',
    deleteOne: (title: string) => `Delete the rule for ${title}`,
    deleted: (title: string) => `Rule deleted: ${title}. You will be asked again.`,
    notDeleted: 'Not deleted.',
    restored: 'The rule is back.',
    notRestored: 'The rule could not be brought back. Make it again with New rule.',
    failed: 'Your rules could not be loaded',
    none: 'No rules',
    noneWhy:
      'When you answer Always, or always deny, the answer is kept here and you are not asked again.',
    example: 'For example: allow Accounts API · Read, whenever Renewal briefs asks for it.',
    choosePermission: 'Choose…',
    resource: 'On what',
    sensitiveNoAllow: 'Sensitive: it can be denied or asked each time, but never always allowed.',
  },
  agents: {
    title: 'My agents',
    lead: 'Every agent that works for you now, and what it holds.',
    none: 'No agent works for you now',
    noneWhy: 'So nothing of yours is lent.',
    endsIn: (left: string) => `ends in ${left}`,
    stopAll: 'End all sessions',
    stopAllTitle: (n: number) => `End ${n === 1 ? 'your session' : `all ${n} sessions`}?`,
    stopAllMeans: 'Every agent gives back everything at once. This cannot be undone.',
    allStopped: (n: number, grants: number) =>
      `${count(n, 'session')} ended, ${count(grants, 'permission')} given back.`,
  },
  changes: {
    all: 'Templates that allow more now',
    title: (title: string) => `${title} may ask for more`,
    versions: (from: number | null, to: number) =>
      from === null ? `now v${to}` : `v${from} to v${to}`,
    means:
      'You said always to some of what it asks. Until you have seen what changed, those questions come again.',
    group: {
      added: 'New: may now ask for',
      widened: 'Wider than before',
      loosened: 'Limits loosened',
      context: 'Instructions changed',
      narrowed: 'Narrower than before',
      removed: 'No longer',
    },
    confirm: 'I have seen it: my rules go on',
    orNot: 'Or leave it, and be asked.',
    confirmed: (title: string) => `Your rules for ${title} are in force again.`,
  },
}
