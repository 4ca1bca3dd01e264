import { createHash } from 'node:crypto'
import { canonicalJson } from '../../core/canonical-json.ts'
import { type hotTx, json, type Tx, withTx } from '../../db/tx.ts'
import { fail, ok, type Result } from '../../fault.ts'
import { type PeopleContext, problemFor } from './endpoint.ts'

/**
 * What a write answers. `body` absent: an empty answer, for 204. `view`: a body that is still being read, in the same
 * transaction, so that its last statement and the commit travel together.
 */
export type Written = { readonly status: 200 | 201 | 202 | 204; readonly body?: unknown } | Viewed
type Viewed = { readonly status: 200 | 201; readonly view: Promise<unknown> }
type Shown = Exclude<Written, Viewed>

const shown = async (written: Written): Promise<Shown> =>
  'view' in written ? { status: written.status, body: await written.view } : written

const KEY = /^[\x20-\x7e]{1,255}$/

type Row = { bodyHash: string; response: Shown | null }
type Attempt = {
  readonly tenantId: string
  readonly caller: string
  readonly route: string
  readonly key: string
  readonly bodyHash: string
}

/** Null when this is the first use of the key; else what its first use stored. The second of two waits here. */
async function takeKey(tx: Tx, of: Attempt, now: number): Promise<Row | null> {
  const [first] = await tx.sql<{ key: string }>`
    insert into idempotency_key (tenant_id, caller, route, key, body_hash, created_at)
    values (${of.tenantId}, ${of.caller}, ${of.route}, ${of.key}, ${of.bodyHash},
      to_timestamp(${now}::float8))
    on conflict do nothing returning key`
  if (first !== undefined) return null
  // A statement of its own: its snapshot shows what the one we waited for has committed.
  const [stored] = await tx.sql<Row>`
    select body_hash as "bodyHash", response from idempotency_key
    where tenant_id = ${of.tenantId} and caller = ${of.caller} and route = ${of.route} and key = ${of.key}`
  return stored ?? { bodyHash: of.bodyHash, response: null }
}

const storeResponse = (tx: Tx, of: Attempt, response: Shown): void => tx.later`
  update idempotency_key set response = ${json(response)}::text::jsonb
  where tenant_id = ${of.tenantId} and caller = ${of.caller} and route = ${of.route} and key = ${of.key}`

const forgetKey = (tx: Tx, of: Attempt): void => tx.later`
  delete from idempotency_key
  where tenant_id = ${of.tenantId} and caller = ${of.caller} and route = ${of.route} and key = ${of.key}`

type Outcome = { readonly written: Written; readonly replayed: boolean }

/** The body with the key, in one transaction: what is stored is committed with what it answers, or neither is. */
async function once(
  tx: Tx,
  attempt: Attempt,
  now: number,
  body: (tx: Tx) => Promise<Result<Written>>,
): Promise<Result<Outcome>> {
  const earlier = await takeKey(tx, attempt, now)
  if (earlier !== null) {
    if (earlier.bodyHash !== attempt.bodyHash) return fail('idempotency_key_reused')
    if (earlier.response !== null) return ok({ written: earlier.response, replayed: true })
  }
  const result = await body(tx)
  if (!result.ok) {
    // A fault is not an answer to keep: the same key may be tried again when its cause is gone.
    forgetKey(tx, attempt)
    return result
  }
  const written = await shown(result.value)
  storeResponse(tx, attempt, written)
  return ok({ written, replayed: false })
}

function attemptOf(c: PeopleContext, key: string): Attempt {
  const url = new URL(c.req.url)
  return {
    tenantId: c.var.tenant.id,
    caller: c.var.caller.userId,
    route: `${c.req.method} ${url.pathname}${url.search}`,
    key,
    bodyHash: createHash('sha256')
      .update(canonicalJson(c.var.rawBody ?? null))
      .digest('base64url'),
  }
}

/**
 * A write of a person: one transaction, which the label names; its record is in it. With an Idempotency-Key the answer is
 * stored in the same commit and given again to a repeat (`Idempotency-Replayed: true`). A fault commits nothing but what
 * the flow recorded of it. Wakes those who wait after the commit.
 */
export async function write(
  c: PeopleContext,
  label: string,
  body: (tx: Tx) => Promise<Result<Written>>,
  open: typeof withTx | typeof hotTx = withTx,
): Promise<Response> {
  const { ctx } = c.var
  const key = c.req.header('Idempotency-Key')
  if (key !== undefined && !KEY.test(key))
    return problemFor(c, {
      code: 'request_malformed',
      errors: [{ path: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters' }],
    })
  const now = ctx.clock.now() / 1000
  const work = async (tx: Tx): Promise<Result<Outcome>> => {
    if (key !== undefined) return once(tx, attemptOf(c, key), now, body)
    const written = await body(tx)
    // If the transaction fails, that is the answer, and nobody asks for the view.
    if (written.ok && 'view' in written.value) written.value.view.catch(() => undefined)
    return written.ok ? ok({ written: written.value, replayed: false }) : written
  }
  const result = await open(ctx.db, label, work)
  if (!result.ok) return problemFor(c, result.fault)
  const { replayed } = result.value
  if (!replayed) ctx.notify.kick()
  const written = await shown(result.value.written)
  const headers = replayed ? { 'Idempotency-Replayed': 'true' } : {}
  return written.body === undefined
    ? c.body(null, written.status, headers)
    : new Response(JSON.stringify(written.body), {
        status: written.status,
        headers: { ...headers, 'Content-Type': 'application/json' },
      })
}

/** A read of a person in one transaction of its own. */
export async function read(
  c: PeopleContext,
  label: string,
  body: (tx: Tx) => Promise<Result<unknown>>,
): Promise<Response> {
  const result = await withTx(c.var.ctx.db, label, body)
  if (!result.ok) return problemFor(c, result.fault)
  return new Response(JSON.stringify(result.value), {
    headers: { 'Content-Type': 'application/json' },
  })
}
