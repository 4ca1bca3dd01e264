import { mountAdminAgents } from './admin-agents.ts'
import { mountAdminGroups } from './admin-groups.ts'
import { mountAdminProxies } from './admin-proxies.ts'
import { mountAdminRestrictions } from './admin-restrictions.ts'
import { mountAdminServers } from './admin-servers.ts'
import { mountAdminServiceAccounts } from './admin-service-accounts.ts'
import { mountAdminServices } from './admin-services.ts'
import { mountAdminToolServers } from './admin-tool-servers.ts'
import { mountAdminUsers } from './admin-users.ts'
import type { Mount } from './endpoint.ts'

/** All of `/admin`. */
export const mountAdmin: Mount = (api) => {
  mountAdminUsers(api)
  mountAdminGroups(api)
  mountAdminRestrictions(api)
  mountAdminAgents(api)
  mountAdminServers(api)
  mountAdminServices(api)
  mountAdminToolServers(api)
  mountAdminProxies(api)
  mountAdminServiceAccounts(api)
}
