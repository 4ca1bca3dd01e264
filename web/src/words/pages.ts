import { count, duration } from '../lib/text.ts'

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
    all: 'Templates that changed',
    title: (title: string, widens: boolean) =>
      widens ? `${title} may ask for more` : `${title} changed`,
    versions: (from: number | null, to: number) =>
      from === null || from === to ? `now v${to}` : `v${from} to v${to}`,
    since: 'since',
    means: (rules: number) =>
      `You said always to some of what it asks. Until you have seen what changed, ${rules === 1 ? 'your rule waits' : `your ${rules} rules wait`} and you are asked again. What it may ask for, it still has to ask for: nothing is given by this.`,
    takenBack:
      'Nothing is wider now than when you said always: what was has been taken back meanwhile.',
    group: {
      added: 'New: may now ask for',
      widened: 'Wider than before',
      loosened: 'Fewer limits',
      children: 'Other agents it may start',
      context: 'Instructions',
      narrowed: 'Narrower than before',
      removed: 'No longer',
    },
    before: 'Before:',
    now: 'Now:',
    everywhere: 'all of it',
    on: (resource: string) => (resource.endsWith('*') ? `all of ${resource}` : resource),
    only: (filter: string) => `only where ${filter}`,
    context: 'The instructions of the agent changed',
    contextNew: 'New:',
    contextGone: 'Gone:',
    limit: (name: string, from: number | null, to: number | null) => {
      const amount = (n: number | null) =>
        n === null ? 'without end' : name.endsWith('Seconds') ? duration(n) : String(n)
      return `${LIMITS[name] ?? name}: ${amount(to)}, was ${amount(from)}`
    },
    child: {
      added: (title: string) => `${title}, new`,
      removed: (title: string) => `May not start ${title} any more`,
      pinned: (title: string, from: number | undefined, to: number | undefined) =>
        `${title}: ${to === undefined ? 'any version' : `v${to}`}, was ${from === undefined ? 'any version' : `v${from}`}`,
    },
    mark: {
      more: (title: string, where: string) =>
        `${title} (${where}) is now always asked for, whatever the mode.`,
      lost: (title: string, where: string) =>
        `${title} (${where}) was always asked for, whatever the mode. Not all of that is any more.`,
      still: (title: string) =>
        `${title} is not marked sensitive by the template any more. The catalog still marks it, so it is still always asked for.`,
    },
    modeGone: (mode: string) => `Mode ${mode}`,
    inChat: (title: string, widens: boolean) =>
      widens
        ? `${title} allows more than when you said always.`
        : `${title} has changed since you said always.`,
    see: 'See what changed',
    confirm: 'I have seen it: my rules go on',
    orNot: 'Or leave it, and be asked.',
    again:
      'It changed again while you were reading, so nothing was confirmed. This is how it is now.',
    notConfirmed: 'Not confirmed.',
    confirmed: (title: string) => `Your rules for ${title} are in force again.`,
  },
}

const LIMITS: Readonly<Record<string, string>> = {
  sessionLifeSeconds: 'A session lasts at most',
  subagentDepth: 'Subagents below one another',
  liveChildren: 'Subagents at once',
  liveRootsPerUser: 'Sessions at once',
  itemsPerRequest: 'Things in one request',
  requestsPerMinute: 'Requests a minute',
  openRequests: 'Requests that wait at once',
  requestWaitSeconds: 'A request waits at most',
}
