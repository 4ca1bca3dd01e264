/** The client broke its body off, or was cut off for taking too long: nothing of ours failed, and nobody waits for an answer. */
export class BodyBroken extends Error {}

const broken = (cause: unknown): never => {
  throw new BodyBroken('The body broke off.', { cause })
}

/**
 * At most `max` bytes of a request's body, or null when there are more. A length that was declared is what the HTTP parser
 * lets through, so such a body is read at once, without a stream around it, and one that is too long is not waited for; one
 * that lied to another kind of caller is caught by its size. Throws `BodyBroken` alone.
 */
export async function bodyBytes(request: Request, max: number): Promise<Uint8Array | null> {
  const declared = request.headers.get('content-length')
  if (declared !== null && /^\d{1,15}$/.test(declared)) {
    if (Number(declared) > max) return null
    const bytes = new Uint8Array(await request.arrayBuffer().catch(broken))
    return bytes.byteLength > max ? null : bytes
  }
  const reader = request.body?.getReader()
  if (reader === undefined) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read().catch(broken)
    if (done) return Buffer.concat(chunks)
    size += value.byteLength
    if (size > max) {
      await reader.cancel()
      return null
    }
    chunks.push(value)
  }
}
