import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { serve } from '../support/peer.ts'

/** The floor of G1: the same framework on the same adapter, answering nothing to everything. */
const app = new Hono()
app.all('*', () => new Response(null, { status: 200, headers: { 'content-length': '0' } }))
const listener = getRequestListener(app.fetch)
const server = createServer((req, res) => void listener(req, res))
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  serve({ port: typeof address === 'object' && address ? address.port : 0 })
})
