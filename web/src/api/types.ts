import type { z } from 'zod'
import type { permission } from '../../../schema/catalog.ts'
import type {
  accessRequest,
  decision,
  GrantView,
  Me,
  problem,
  RequestItemView,
  RequestView,
  RuleView,
  ruleNew,
  session,
  sessionAccess,
  sessionEnded,
} from '../../../schema/people.ts'
import type {
  TemplateChangeView,
  TemplateDiffView,
  templateConfirm,
} from '../../../schema/templates.ts'
import type { Mode } from '../../../src/core/vocabulary.ts'

/** What the page speaks: the People API's own schemas as types, and what the agent app answers. */
export type { GrantView, Me, Mode, RequestItemView, RequestView, RuleView }
export type SessionView = z.output<typeof session>
export type SessionAccess = z.output<typeof sessionAccess>
export type SessionEnded = z.output<typeof sessionEnded>
export type ProblemBody = z.output<typeof problem>
export type DecisionBody = z.input<typeof decision>
export type Answer = DecisionBody['items'][number]['decision']
export type RuleNew = z.input<typeof ruleNew>
/** What widened since a person said always. */
export type TemplateChange = TemplateChangeView
export type TemplateDiff = TemplateDiffView
export type TemplateConfirm = z.input<typeof templateConfirm>
export type PermissionView = z.output<typeof permission>
export type Outcome = z.output<typeof accessRequest>['items'][number]['outcome']
export type List<Item> = { readonly items: readonly Item[]; readonly next?: string }

export type WebConfig = {
  readonly demo: boolean
  readonly tenants?: readonly {
    readonly slug: string
    readonly name: string
    readonly people: readonly { readonly login: string; readonly name: string }[]
  }[]
}

export type AppTemplate = {
  readonly name: string
  readonly title: string
  /** Absent: not known here; the server says when it is asked. */
  readonly modes?: readonly Mode[]
}

export type AppMe = {
  readonly signed_in: boolean
  readonly login?: string
  readonly agent?: {
    readonly id: string
    readonly name: string
    readonly templates: readonly AppTemplate[]
  }
  readonly model?: { readonly kind: 'scripted' | 'real'; readonly name: string }
}

export const RUN_STATES = ['working', 'waiting', 'idle', 'stopped', 'failed', 'ended'] as const
export type RunState = (typeof RUN_STATES)[number]

export type Step = {
  readonly tool: string
  readonly title: string
  readonly status: 'running' | 'done' | 'refused' | 'failed'
  readonly summary?: string
  readonly request_id?: string
}

export type Message = {
  readonly id: string
  readonly at: string
  readonly role: 'user' | 'agent' | 'step'
  readonly session_id: string
  readonly path?: readonly string[]
  readonly text?: string
  readonly step?: Step
}

export type Run = {
  readonly session_id: string
  readonly state: RunState
  readonly messages: readonly Message[]
}
