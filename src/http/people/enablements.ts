import { z } from 'zod'
import { enablementNarrow } from '../../../schema/compliance.ts'
import { listOf, templateName } from '../../../schema/people.ts'
import { enablement, enablementChanged, enablementPut } from '../../../schema/templates.ts'
import { assert } from '../../core/assert.ts'
import {
  type EnablementRow,
  type Offer,
  selectOffer,
  selectOffers,
  versionTerms,
} from '../../db/enablements.ts'
import type { Tx } from '../../db/tx.ts'
import { iso } from '../../db/view-sessions.ts'
import { fail, ok } from '../../fault.ts'
import { type Enabled, setEnablement } from '../../flows/admin/enable-template.ts'
import { answered, READERS, WRITERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { read, write } from './write.ts'

/** What a tenant makes of published templates (SPEC section 3): org admins turn on, narrow and turn off. */
const tag = 'enablements'
const byTemplate = z.strictObject({ template: templateName })

export const enablementView = (e: EnablementRow) => ({
  template: e.template,
  title: e.title,
  status: e.status,
  adopted_version: e.adoptedVersion,
  kept: e.kept,
  modes: e.modes,
  limits: e.limits,
  updated_at: iso(e.updatedAt),
})

const changedView = (done: Enabled) => ({
  ...enablementView(done.enablement),
  widens: done.widens,
  rules_suspended: done.rulesSuspended,
  sessions_ended: done.sessionsEnded,
})

async function offerView(tx: Tx, offer: Offer) {
  const { templateId, template, title, purpose, latestVersion, enablement: own } = offer
  const version = own?.adoptedVersion ?? latestVersion
  const terms = await versionTerms(tx, { templateId, version, retired: true })
  assert(terms, 'an offered version is published')
  const { ceiling, modes, limits } = terms
  return {
    template,
    title,
    status: 'off' as const,
    ...(own === null ? {} : enablementView(own)),
    purpose,
    latest_version: latestVersion,
    allows: { version, ceiling, modes, limits },
  }
}

const mountRead: Mount = (api) => {
  endpoint(
    api,
    {
      method: 'get',
      path: '/enablements',
      summary: 'Published templates, and what this organisation made of each',
      tag,
      roles: READERS,
      query: z.strictObject({}),
      answers: { 200: listOf(enablement) },
    },
    (c) =>
      read(c, 'list_enablements', async (tx) => {
        const items = []
        for (const offer of await selectOffers(tx, { tenantId: c.var.tenant.id }))
          items.push(await offerView(tx, offer))
        return ok({ items })
      }),
  )
  endpoint(
    api,
    {
      method: 'get',
      path: '/enablements/{template}',
      summary: 'One published template, and what this organisation made of it',
      tag,
      roles: READERS,
      params: byTemplate,
      answers: { 200: enablement },
    },
    (c, { params }) =>
      read(c, 'read_enablement', async (tx) => {
        const offer = await selectOffer(tx, { tenantId: c.var.tenant.id, ...params })
        return offer === null ? fail('not_found') : ok(await offerView(tx, offer))
      }),
  )
}

const mountPut: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'put',
      path: '/enablements/{template}',
      summary:
        'Turn a template on, narrow it, take a narrowing back, or turn it off, which ends its sessions',
      tag,
      roles: WRITERS,
      params: byTemplate,
      body: enablementPut,
      idempotent: true,
      answers: { 200: enablementChanged },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'set_enablement', async (tx) =>
        answered(
          await setEnablement(c.var.ctx, c.var.caller, { ...params, ...body }, tx),
          200,
          changedView,
        ),
      ),
  )

const mountNarrow: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'post',
      path: '/enablements/{template}/narrow',
      summary: 'Take items out of what this organisation keeps of a template',
      tag,
      roles: WRITERS,
      params: byTemplate,
      body: enablementNarrow,
      idempotent: true,
      answers: { 200: enablementChanged },
      faults: ['unprocessable'],
    },
    (c, { params, body }) =>
      write(c, 'narrow_enablement', async (tx) => {
        const offer = await selectOffer(tx, { tenantId: c.var.tenant.id, ...params })
        if (offer?.enablement?.status !== 'on')
          return fail('not_found', { detail: 'No such template is turned on.' })
        const input = { ...params, ...body, status: 'on' } as const
        return answered(await setEnablement(c.var.ctx, c.var.caller, input, tx), 200, changedView)
      }),
  )

export const mountEnablements: Mount = (api) => {
  mountRead(api)
  mountPut(api)
  mountNarrow(api)
}
