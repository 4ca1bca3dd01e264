import { count } from '../lib/text.ts'

/** The access pane. */
export const accessWords = {
  access: {
    title: 'Session access',
    show: 'Show access',
    hide: 'Hide access',
    state: 'State',
    live: 'Live',
    readOnly: 'Read-only',
    endsIn: 'Ends in',
    endedAt: 'Ended',
    mode: 'Mode',
    template: 'Template',
    holdsNow: 'Holds now',
    permission: 'permission held now',
    permissions: 'permissions held now',
    zero: 'The agent holds nothing. It asks you for what it needs.',
    zeroEnded: 'Everything was given back.',
    nothing: 'Holds nothing.',
    holds: (n: number) => `holds ${n}`,
    since: 'since',
    uses: (n: number) => `used ${n === 1 ? 'once' : `${n} times`}`,
    noUse: 'not used yet',
    unused: 'not used for 10 minutes',
    staysHere: 'its own, stays here',
    takeBack: 'Take back',
    takeBackOne: (title: string) => `Take back ${title}`,
    taken: (title: string, n: number) =>
      n > 1
        ? `Taken back: ${title}, and what subagents had of it (${n} in all).`
        : `Taken back: ${title}.`,
    notTaken: 'Not taken back.',
    subagents: 'Subagents',
    openSubagent: 'Show it alone',
    notGiven: 'Asked and not given',
    lost: 'Lost',
    failed: 'What it holds could not be loaded',
    end: 'End session',
    endSubagent: 'End subagent',
    endTitle: 'End this session?',
    endNames: (grants: number, subagents: number) =>
      `It gives back ${count(grants, 'permission')}${subagents === 0 ? '' : `, and ${count(subagents, 'subagent')} ends with it`}. This cannot be undone; a new session starts with nothing.`,
    endUnknown:
      'What it holds could not be loaded; it gives all of it back, and its subagents end with it. This cannot be undone.',
    endedToast: (grants: number, sessions: number) =>
      `${count(sessions, 'session')} ended, ${count(grants, 'permission')} given back.`,
    rechecked:
      'Your own access is checked again at least every 15 minutes; what you lose, the agent loses.',
  },
  lost: {
    user_lost_access: 'lost, since you lost it',
    ceiling_changed: 'lost, since the template no longer allows it',
    catalog_changed: 'lost, since it can no longer be lent',
    deny_rule: 'ended by your deny rule',
    parent_lost: 'lost with the agent above',
    taken_back: 'taken back by you',
    admin: 'taken by an admin',
  },
}
