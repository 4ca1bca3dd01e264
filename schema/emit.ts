import { z } from 'zod'
import { activityRecord } from './activity.ts'
import { authDecision } from './auth-decision.ts'
import * as catalog from './catalog.ts'
import { sessionClaimsSchema } from './claims.ts'
import * as explanation from './explanation.ts'
import * as people from './people.ts'
import { permissionsFile } from './permissions-file.ts'
import * as studio from './studio.ts'
import * as templates from './templates.ts'
import { TOOLS } from './tools.ts'

/**
 * The contracts as JSON Schema (draft 2020-12), for clients in other languages. What is committed in `schema/json/` is
 * what this says; a test compares them. `npm run schema` writes them anew.
 */
export function emitted(): ReadonlyMap<string, string> {
  const files = new Map<string, string>()
  const put = (name: string, schema: z.ZodType, io: 'input' | 'output') => {
    const json = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
    files.set(`${name}.json`, `${JSON.stringify(json, null, 2)}\n`)
  }
  for (const [name, tool] of Object.entries(TOOLS)) {
    put(`tools/${name}.input`, tool.input, 'input')
    put(`tools/${name}.output`, tool.output, 'output')
  }
  put('session-token-claims', sessionClaimsSchema, 'output')
  put('activity-record', activityRecord, 'output')
  put('auth-decision', authDecision, 'output')
  put('people/problem', people.problem, 'output')
  put('people/me', people.me, 'output')
  put('people/session', people.session, 'output')
  put('people/session-new', people.sessionNew, 'input')
  put('people/session-change', people.sessionChange, 'input')
  put('people/access-request', people.accessRequest, 'output')
  put('people/decision', people.decision, 'input')
  put('people/grant', people.grant, 'output')
  put('people/rule', people.rule, 'output')
  put('people/rule-new', people.ruleNew, 'input')
  put('people/template-change', templates.templateChange, 'output')
  put('people/template-confirm', templates.templateConfirm, 'input')
  put('people/template', studio.template, 'output')
  put('people/template-new', studio.templateNew, 'input')
  put('people/template-version', studio.templateVersion, 'output')
  put('people/template-draft', studio.templateDraft, 'input')
  put('people/template-review', studio.templateReview, 'input')
  put('people/template-version-diff', studio.templateVersionDiff, 'output')
  put('people/template-reach', studio.templateReach, 'output')
  put('people/enablement-preview', studio.enablementPreview, 'output')
  put('people/explanation', explanation.explanation, 'output')
  put('people/item-explanation', explanation.itemExplanation, 'output')
  put('people/template-try', explanation.templateTry, 'input')
  put('people/template-tried', explanation.templateTried, 'output')
  put('people/template-replay', studio.templateReplay, 'output')
  put('template-file', studio.templateFile, 'input')
  put('permissions-file', permissionsFile, 'input')
  put('people/catalog-published', catalog.catalogPublished, 'output')
  put('people/catalog-diff', catalog.catalogDiff, 'output')
  put('people/catalog-proposal', catalog.proposal, 'output')
  return files
}
