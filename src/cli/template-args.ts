import type { ArgsDef } from 'citty'

/** Options of `lend template`. */
export const TEMPLATE_ARGS = {
  action: { type: 'positional', description: 'export, validate, diff or apply' },
  what: { type: 'positional', description: 'A template’s name to export; else a JSON file' },
  tenant: { type: 'string', description: 'Slug of the tenant that owns it; studio by default' },
  url: {
    type: 'string',
    description:
      'Where Lend is, as in https://lend.example or …/t/studio; left out: LEND_URL, or http://localhost:4000',
  },
  version: { type: 'string', description: 'Of export: by default the open draft, or the newest' },
  over: { type: 'string', description: 'Of apply: the revision of the open draft to write over' },
  submit: { type: 'boolean', description: 'Of apply: hand the draft to review' },
} as const satisfies ArgsDef
