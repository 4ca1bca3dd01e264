import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { ACTIVITY_TYPES, type ActivityRecord } from '../core/activity.ts'
import type { TenantId } from '../core/vocabulary.ts'
import { withTx } from '../db/tx.ts'
import {
  ChainVerifier,
  type Problem,
  type Verified,
  verifyActivity,
} from '../flows/verify-activity.ts'
import type { Ctx } from '../ports.ts'

/** `lend verify-activity`: checks an export without a server, or a database without trusting its server. */
type Out = (line: string) => void

const SHOWN_MAX = 50

const sentence = (p: Problem): string =>
  `${p.chain} #${p.seq}${p.id === undefined ? '' : ` (${p.id})`}: ${p.problem}`

function tell(out: Out, verified: Verified): void {
  for (const problem of verified.problems.slice(0, SHOWN_MAX)) out(sentence(problem))
  const more = verified.problems.length - SHOWN_MAX
  if (more > 0) out(`and ${more} more`)
  const count = `${verified.records} records in ${verified.chains} chains`
  out(verified.ok ? `ok: ${count}` : `NOT ok: ${count}`)
}

// Open: a member that was added must reach the hash, and make it differ.
const line = z.looseObject({
  id: z.string(),
  tenant_id: z.string(),
  seq: z.int().positive(),
  at: z.string(),
  type: z.enum(ACTIVITY_TYPES),
  session_id: z.string().optional(),
  data: z.record(z.string(), z.unknown()),
  prev_hash: z.string(),
  hash: z.string(),
})

const parsed = (text: string): ActivityRecord | null => {
  try {
    const value: unknown = JSON.parse(text)
    // The shape was checked; the value itself is kept, since parsing anew could drop what was added to it.
    return line.safeParse(value).success ? (value as ActivityRecord) : null
  } catch {
    return null
  }
}

/**
 * Verifies an NDJSON export and says what it found. A file alone cannot prove that nothing was cut off its end, which the
 * database's heads and checkpoints do; it says how many sessions it does not see the end of. `extract`: the export was made
 * with a filter, so gaps prove nothing. Returns the exit status: 0 all good, 1 something was changed, 2 a line is no record.
 */
export async function verifyFile(
  path: string,
  out: Out,
  how: { readonly extract?: boolean } = {},
): Promise<0 | 1 | 2> {
  const verifier = new ChainVerifier(how)
  const open = new Set<string>()
  let count = 0
  const lines = createInterface({
    input: createReadStream(path),
    crlfDelay: Number.POSITIVE_INFINITY,
  })
  for await (const text of lines) {
    count++
    if (text === '') continue
    const record = parsed(text)
    if (record === null) {
      out(`line ${count} is no activity record`)
      return 2
    }
    verifier.add(record)
    if (record.session_id === undefined) continue
    // What is reported late may come after a session's end.
    if (record.seq === 1) open.add(record.session_id)
    if (record.type === 'session.ended') open.delete(record.session_id)
  }
  const verified = verifier.result()
  tell(out, verified)
  if (open.size > 0 && !how.extract)
    out(
      `${open.size} sessions have no end in it: they were live when it was made, or its end was cut off`,
    )
  return verified.ok ? 0 : 1
}

/**
 * Verifies every tenant of a database, or one by its slug, checkpoints included, and prints the key that signed them.
 * `trusted`: thumbprints of keys that may have. Returns the exit status: 0, 1, or 2 for an unknown tenant.
 */
export async function verifyDatabase(
  ctx: Pick<Ctx, 'db'>,
  out: Out,
  of: { readonly tenant?: string; readonly trusted?: readonly string[] } = {},
): Promise<0 | 1 | 2> {
  const tenants = await withTx(
    ctx.db,
    'list_tenants',
    (tx) =>
      tx.sql<{ id: TenantId; slug: string }>`
      select id, slug from tenant
      where ${of.tenant ?? null}::text is null or slug = ${of.tenant ?? null} order by slug`,
  )
  if (tenants.length === 0) {
    out(of.tenant === undefined ? 'there is no tenant' : `there is no tenant ${of.tenant}`)
    return 2
  }
  let ok = true
  for (const { id, slug } of tenants) {
    out(`${slug}:`)
    const verified = await verifyActivity(ctx, { tenantId: id, trusted: of.trusted })
    tell(out, verified)
    const { checkpoint, cut_before: cutBefore } = verified
    if (cutBefore !== undefined) out(`records before ${cutBefore} went with their months`)
    out(
      checkpoint === undefined
        ? 'no checkpoint yet: what was cut off at the end does not show'
        : `anchored by checkpoint ${checkpoint.n} of ${checkpoint.at}, signed with key ${checkpoint.key}`,
    )
    ok &&= verified.ok
  }
  return ok ? 0 : 1
}
