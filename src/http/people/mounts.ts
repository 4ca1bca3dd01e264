import { mountActivity } from './activity.ts'
import { mountAdmin } from './admin-mounts.ts'
import { mountCatalog } from './catalog.ts'
import { mountCompliance } from './compliance.ts'
import { mountEnablements } from './enablements.ts'
import type { Mount } from './endpoint.ts'
import { mountEvents } from './events.ts'
import { mountFreezes } from './freezes.ts'
import { mountMe } from './me.ts'
import { mountRequests } from './requests.ts'
import { mountRules } from './rules.ts'
import { mountSessions } from './sessions.ts'
import { mountTemplateChanges } from './template-changes.ts'

/** Every group of routes of the People API, in the order of its document. */
export const MOUNTS: readonly Mount[] = [
  mountMe,
  mountSessions,
  mountRequests,
  mountRules,
  mountTemplateChanges,
  mountEnablements,
  mountEvents,
  mountCatalog,
  mountActivity,
  mountCompliance,
  mountAdmin,
  mountFreezes,
]
