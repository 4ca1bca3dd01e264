import { mountActivity } from './activity.ts'
import { mountAdmin } from './admin-mounts.ts'
import { mountCatalog } from './catalog.ts'
import { mountCatalogPublishing } from './catalog-publish.ts'
import { mountCompliance } from './compliance.ts'
import { mountEnablementPreview } from './enablement-preview.ts'
import { mountEnablements } from './enablements.ts'
import type { Mount } from './endpoint.ts'
import { mountEvents } from './events.ts'
import { mountExplain } from './explain.ts'
import { mountFreezes } from './freezes.ts'
import { mountMe } from './me.ts'
import { mountRequests } from './requests.ts'
import { mountRules } from './rules.ts'
import { mountSessions } from './sessions.ts'
import { mountStudio } from './studio.ts'
import { mountStudioComments } from './studio-comments.ts'
import { mountStudioDiff } from './studio-diff.ts'
import { mountTemplateChanges } from './template-changes.ts'

/** Every group of routes of the People API, in the order of its document. */
export const MOUNTS: readonly Mount[] = [
  mountMe,
  mountSessions,
  mountRequests,
  mountRules,
  mountTemplateChanges,
  mountEnablements,
  mountEnablementPreview,
  mountStudio,
  mountStudioComments,
  mountStudioDiff,
  mountExplain,
  mountEvents,
  mountCatalogPublishing,
  mountCatalog,
  mountActivity,
  mountCompliance,
  mountAdmin,
  mountFreezes,
]
