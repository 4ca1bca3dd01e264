import { z } from 'zod'
import { templateName } from '../../../schema/people.ts'
import { enablementPreview } from '../../../schema/studio.ts'
import { diffTerms } from '../../core/terms.ts'
import { diffView } from '../../db/diff-view.ts'
import { selectOffer } from '../../db/enablements.ts'
import { fail, ok } from '../../fault.ts'
import { adoptionOf } from '../../flows/admin/adopt-version.ts'
import { badField } from '../../flows/admin/change.ts'
import { secondsNow } from '../../flows/live.ts'
import { replayRequests } from '../../flows/replay-requests.ts'
import { READERS } from './admin-common.ts'
import { endpoint, type Mount } from './endpoint.ts'
import { days, number, placeView, replayView } from './studio-views.ts'
import { read } from './write.ts'

/** What adopting a version would change here, within this organisation's own narrowing (SPEC section 3). Writes nothing. */
export const mountEnablementPreview: Mount = (api) =>
  endpoint(
    api,
    {
      method: 'get',
      path: '/enablements/{template}/preview',
      summary: 'What another version would change in this organisation, within what it kept',
      tag: 'enablements',
      roles: READERS,
      params: z.strictObject({ template: templateName }),
      query: z.strictObject({
        days,
        version: number.optional().meta({ description: 'By default the newest published one' }),
      }),
      answers: { 200: enablementPreview },
      faults: ['unprocessable'],
    },
    (c, { params, query }) =>
      read(c, 'preview_adoption', async (tx) => {
        const tenantId = c.var.tenant.id
        const offer = await selectOffer(tx, { tenantId, ...params })
        if (offer?.enablement == null) return fail('not_found')
        const version = query.version ?? offer.latestVersion
        const now = secondsNow(c.var.ctx.clock)
        const adoption = await adoptionOf(tx, offer.enablement, version, now)
        if (adoption === null)
          return badField('version', 'is not a published version of this template')
        const replayed = await replayRequests(c.var.ctx, tx, {
          tenantId,
          onlyOwn: true,
          templateId: offer.templateId,
          terms: adoption.to,
          days: query.days,
        })
        const diff = diffTerms(adoption.from, adoption.to)
        return ok({
          template: offer.template,
          from_version: offer.enablement.adoptedVersion,
          to_version: version,
          widens: diff.widens,
          kept: adoption.enablement.kept.map(placeView),
          modes: adoption.to.modes,
          limits: adoption.to.limits,
          diff: await diffView(tx, tenantId, diff),
          replay: replayView(replayed, query),
        })
      }),
  )
