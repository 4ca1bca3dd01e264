import type { PeopleContext } from './endpoint.ts'

/** How the rows of a file are written. */
export type FileFormat<Row> = {
  readonly type: string
  /** Before the first row; empty: nothing. */
  readonly head: string
  readonly line: (row: Row) => string
  readonly extension: string
}

/** Pages as bytes, made only as fast as they are read. A fault in the middle breaks the connection off: no short file. */
function streamOf<Row>(
  c: PeopleContext,
  of: { readonly first: readonly Row[]; readonly pages: AsyncGenerator<readonly Row[]> },
  format: FileFormat<Row>,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const { deps, requestId } = c.var
  const { first, pages } = of
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      const text = format.head + first.map(format.line).join('')
      if (text !== '') controller.enqueue(encoder.encode(text))
    },
    pull: async (controller) => {
      try {
        const { done, value } = await pages.next()
        if (done) controller.close()
        else controller.enqueue(encoder.encode(value.map(format.line).join('')))
      } catch (error) {
        deps.onBug(error, requestId)
        controller.error(error)
      }
    },
    cancel: async () => {
      await pages.return(undefined)
    },
  })
}

/** A file to download, of any length. */
export async function fileOf<Row>(
  c: PeopleContext,
  name: string,
  pages: AsyncGenerator<readonly Row[]>,
  format: FileFormat<Row>,
): Promise<Response> {
  // An outage now is still an answer of its own; and the export is recorded before anything is sent.
  const first = await pages.next()
  return new Response(streamOf(c, { first: first.value ?? [], pages }, format), {
    headers: {
      'Content-Type': format.type,
      'Content-Disposition': `attachment; filename="${name}-${c.var.tenant.slug}.${format.extension}"`,
      'X-Content-Type-Options': 'nosniff',
    },
  })
}
