import type { RequestListener } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { requireNginx, runNginx, type Service, service } from '../gateway/support/nginx.ts'
import { replaced } from '../gateway/support/program.ts'

requireNginx()

/** The reference configuration for instances behind nginx, as it is but for the addresses. */
async function balancedByNginx(ports: readonly number[]) {
  const places = ['127.0.0.1:4001', '127.0.0.1:4002', '127.0.0.1:4003']
  const running = await runNginx({
    from: 'src/ops/nginx',
    file: 'nginx.conf',
    change: (text) =>
      places.reduce((so, place, n) => replaced(so, place, `127.0.0.1:${ports[n]}`), text),
  })
  return {
    url: running.origin,
    close: running.stop,
  }
}
type Nginx = Awaited<ReturnType<typeof balancedByNginx>>

describe('nginx in front of instances', () => {
  let front: Nginx
  let services: Service[] = []
  const behind = async (...answers: readonly RequestListener[]) => {
    services = await Promise.all(answers.map((answer) => service(answer)))
    front = await balancedByNginx(services.map(({ port }) => port))
  }
  afterEach(async () => {
    await front.close()
    for (const one of services) await one.close()
  })
  const asked = (path: string) =>
    services.flatMap(({ seen }) => seen.filter((req) => req.url === path)).length
  const hangsUp: RequestListener = (req, res) => {
    if (req.url === '/readyz') res.end('ready')
    else req.resume().on('end', () => req.socket.destroy())
  }

  test('leaves one that stops alone while that still serves', async () => {
    const ready: RequestListener = (_req, res) => res.end('served')
    await behind(
      (req, res) => res.writeHead(req.url === '/readyz' ? 503 : 200).end('served'),
      ready,
      ready,
    )
    const [stopping] = services
    const post = async (path: string) =>
      (await fetch(`${front.url}${path}`, { method: 'POST', body: 'x' })).status
    await expect
      .poll(async () => [await post('/before'), stopping?.seen.some((r) => r.url === '/readyz')])
      .toEqual([200, true])
    // Its no has come back by the time that another answer has.
    await post('/between')
    for (let n = 0; n < 12; n++) expect(await post('/after')).toBe(200)
    expect(asked('/after')).toBe(12)
    expect(stopping?.seen.map((req) => req.url)).not.toContain('/after')
  })

  test('sends what an instance hung up on to another when it changes nothing', async () => {
    await behind(hangsUp, hangsUp, hangsUp)
    expect((await fetch(`${front.url}/reads`)).status).toBe(502)
    expect(asked('/reads')).toBe(3)
  })

  test.each(['POST', 'PATCH'])('sends a %s once, whatever becomes of it', async (method) => {
    await behind(hangsUp, hangsUp, hangsUp)
    const body = 'grant_type=refresh_token'
    expect((await fetch(`${front.url}/changes`, { method, body })).status).toBe(502)
    expect(asked('/changes')).toBe(1)
  })
})
