import { expect, test } from 'vitest'
import type { UserTokenVerifier, VerifiedUserToken } from '../../src/identity/login.ts'
import { userCallerFrom } from '../../src/identity/people.ts'
import { eachDatabase } from '../support/databases.ts'
import { instance, TENANT } from './support/callers.ts'

const ISSUER = 'https://idp.acme.example'
const CLIENT = 'people'
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const tokenNaming = (subject: string) =>
  `${encoded({ alg: 'ES256' })}.${encoded({ iss: ISSUER, sub: subject })}.c2ln`

/** Vouches for `subject`, whatever the token says, when `meanwhile` is over. */
const vouching = (
  subject: string,
  meanwhile: () => Promise<unknown> = async () => {},
): UserTokenVerifier => ({
  verify: async () => {
    await meanwhile()
    const provider = { firstPartyClients: [CLIENT], createsUsers: false }
    const token = { provider, issuer: ISSUER, subject, clientId: CLIENT, profile: {} }
    return { ok: true, value: token as unknown as VerifiedUserToken }
  },
  checkIssuer: async () => ({ ok: true, value: true }),
})

const pause = (millis: number) => new Promise((done) => setTimeout(done, millis))

eachDatabase('the person behind a token, looked up while it is verified', (database) => {
  const caller = (verifier: UserTokenVerifier, token: string) =>
    userCallerFrom(instance(database().db), verifier)(token, TENANT)

  test('is the one that was vouched for, not the one that the token names', async () => {
    const said = await caller(vouching('maya'), tokenNaming('adam'))
    expect(said).toMatchObject({ ok: true, value: { userId: 'usr_maya' } })
  })

  test('is nobody when nobody is vouched for by that name', async () => {
    const said = await caller(vouching('nobody'), tokenNaming('maya'))
    expect(said).toMatchObject({ ok: false, fault: { code: 'user_unknown' } })
  })

  test('is looked at again when the verification took long: a disabling meanwhile counts', async () => {
    const { run } = database()
    const meanwhile = async () => {
      await run(`update app_user set status = 'disabled' where id = 'usr_maya'`)
      await pause(150)
    }
    const said = await caller(vouching('maya', meanwhile), tokenNaming('maya'))
    await run(`update app_user set status = 'active' where id = 'usr_maya'`)
    expect(said).toMatchObject({ ok: false, fault: { code: 'user_disabled' } })
  })
})
