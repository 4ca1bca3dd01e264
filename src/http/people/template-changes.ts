import { z } from 'zod'
import { listOf, templateName } from '../../../schema/people.ts'
import {
  enablementAdopt,
  enablementAdopted,
  templateChange,
  templateConfirm,
  templateConfirmed,
} from '../../../schema/templates.ts'
import { diffView } from '../../db/diff-view.ts'
import type { Tx } from '../../db/tx.ts'
import { iso } from '../../db/view-sessions.ts'
import { ok } from '../../fault.ts'
import { type Adopted, adoptVersion } from '../../flows/admin/adopt-version.ts'
import {
  confirmChange,
  type TemplateChange,
  templateChanges,
} from '../../flows/template-changes.ts'
import { answered, WRITERS } from './admin-common.ts'
import { enablementView } from './enablements.ts'
import { endpoint, type Mount, type PeopleContext } from './endpoint.ts'
import { read, write } from './write.ts'

const byTemplate = z.strictObject({ template: templateName })

const changeView = async (
  c: PeopleContext,
  tx: Tx,
  { row, enablement, diff, digest }: TemplateChange,
) => ({
  template: row.template,
  title: enablement.title,
  ...(row.fromVersion === null ? {} : { from_version: row.fromVersion }),
  to_version: enablement.adoptedVersion,
  ...(row.since === null ? {} : { since: iso(row.since) }),
  suspended_rules: row.rules,
  digest,
  diff: await diffView(tx, c.var.tenant.id, diff),
})

const adoptedView = ({ enablement, widens, rulesSuspended }: Adopted) => ({
  ...enablementView(enablement),
  widens,
  rules_suspended: rulesSuspended,
})

const mountChanges: Mount = (api) => {
  const tag = 'rules'
  endpoint(
    api,
    {
      method: 'get',
      path: '/template-changes',
      summary: 'Templates that allow more than you have agreed to: your allow rules for them wait',
      tag,
      query: z.strictObject({}),
      answers: { 200: listOf(templateChange) },
    },
    (c) =>
      read(c, 'list_template_changes', async (tx) => {
        const items = []
        for (const change of await templateChanges(c.var.ctx, tx, c.var.caller))
          items.push(await changeView(c, tx, change))
        return ok({ items })
      }),
  )
  endpoint(
    api,
    {
      method: 'post',
      path: '/template-changes/{template}/confirm',
      summary: 'You have seen what changed: your allow rules for this template are in force again',
      tag,
      params: byTemplate,
      body: templateConfirm,
      idempotent: true,
      answers: { 200: templateConfirmed },
      faults: ['change_superseded'],
    },
    (c, { params, body }) =>
      write(c, 'confirm_template_change', async (tx) => {
        const seen = { ...params, ...body }
        const done = await confirmChange(c.var.ctx, tx, c.var.caller, seen)
        return answered(done, 200, ({ template, version, rulesConfirmed }) => ({
          template,
          version,
          rules_confirmed: rulesConfirmed,
        }))
      }),
  )
}

const mountAdopt: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/enablements/{template}/adopt',
      summary:
        'Adopt a published version: only it starts sessions from now on. If it allows more, people’s allow rules wait until they have looked',
      tag: 'enablements',
      roles: WRITERS,
      params: byTemplate,
      body: enablementAdopt,
      idempotent: true,
      answers: { 200: enablementAdopted },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'adopt_version', async (tx) =>
        answered(
          await adoptVersion(c.var.ctx, c.var.caller, { ...params, ...body }, tx),
          200,
          adoptedView,
        ),
      ),
  )

export const mountTemplateChanges: Mount = (api) => {
  mountChanges(api)
  mountAdopt(api)
}
