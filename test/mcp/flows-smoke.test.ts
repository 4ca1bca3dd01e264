import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Lend, serveLend } from './support/lend.ts'
let lend: Lend
beforeAll(async () => { const t=performance.now(); lend = await serveLend(); console.log('boot', performance.now()-t) })
afterAll(() => lend.close())
it('works', async () => {
  let t=performance.now()
  const a = await lend.start('maya')
  console.log('start', performance.now()-t); t=performance.now()
  const r = await a.ask(['accounts:read'])
  console.log(JSON.stringify(r, null, 1), performance.now()-t); t=performance.now()
  console.log((await lend.person('maya').answer(r.request_id, 'allow_once')).status, performance.now()-t)
  t=performance.now()
  console.log(await a.held(), performance.now()-t)
  const b = await lend.start('maya', { mode: 'bypass', client: 'newer' })
  console.log(JSON.stringify(await b.ask(['accounts:read', 'email:send domain/x.example'])))
  expect(lend.bugs).toEqual([])
})
