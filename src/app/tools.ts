import { jsonSchema, type ToolSet, tool } from 'ai'
import { z } from 'zod'
import type { Claimed, LendClient } from './lend.ts'

/** The demo services as tools of the model. Each is called with a session token for that service; the model sees answers. */
type ServiceTool = {
  readonly title: string
  readonly description: string
  readonly input: z.ZodType<Record<string, unknown>>
} & (
  | { readonly call: (args: Record<string, unknown>) => ServiceCall }
  /** Behind Lend's tool gateway, under the same name there. */
  | { readonly server: string }
)

type ServiceCall = { resource: string; path: string; method?: string; body?: unknown }

const segment = (value: unknown): string => encodeURIComponent(String(value))

export const SERVICE_TOOLS: Readonly<Record<string, ServiceTool>> = {
  list_accounts: {
    title: 'List accounts',
    description: 'Lists the accounts that this session may see, with their renewal dates.',
    input: z.object({}),
    call: () => ({ resource: '/demo/accounts', path: '/accounts' }),
  },
  open_dashboard: {
    title: 'Open a dashboard',
    description: 'Opens one dashboard by id, as in q3-pipeline.',
    input: z.object({ id: z.string() }),
    call: ({ id }) => ({ resource: '/demo/dashboards', path: `/dashboards/${segment(id)}` }),
  },
  read_pricing: {
    title: 'Read contract pricing',
    description: 'Reads what an account pays. Sensitive.',
    input: z.object({ contract_id: z.string() }),
    call: (a) => ({
      resource: '/demo/contracts',
      path: `/contracts/${segment(a.contract_id)}/pricing`,
    }),
  },
  save_email_template: {
    title: 'Save an email template',
    description: 'Saves a draft as an email template.',
    input: z.object({ name: z.string(), subject: z.string(), body: z.string() }),
    call: (body) => ({ resource: '/demo/mail', path: '/templates', method: 'POST', body }),
  },
  send_email: {
    title: 'Send an email',
    description: 'Sends an email to one address.',
    input: z.object({ to: z.string(), subject: z.string(), body: z.string() }),
    server: 'mail',
  },
}

/** Tools without `execute`: the app runs them itself, so that each result is kept before the next step. */
export async function toolsFor(lend: LendClient, session: Claimed): Promise<ToolSet> {
  const tools: ToolSet = {}
  for (const listed of await lend.listTools(session)) {
    tools[listed.name] = tool({
      description: listed.description ?? '',
      inputSchema: jsonSchema(listed.inputSchema as Parameters<typeof jsonSchema>[0]),
    })
  }
  for (const [name, service] of Object.entries(SERVICE_TOOLS))
    tools[name] = tool({ description: service.description, inputSchema: service.input })
  return tools
}
