import { z } from 'zod'
import type { Session } from './app.ts'
import { nameOf, type Scene } from './scene.ts'

const accessNeeded = z.looseObject({
  code: z.literal('access_needed'),
  ask: z.object({
    tool: z.string(),
    items: z.array(z.looseObject({ permission: z.string(), resource: z.string() })),
  }),
})

/** Mail is sent by an MCP server behind the tool gateway, which looks at where each call goes. */
export async function sendsMail({ story }: Scene, session: Session): Promise<void> {
  const send = async (to: string) => {
    story.say('agent', `tools/mail send_email to ${to}`)
    const mail = { to, subject: 'Your renewal', body: 'Dear customer, …' }
    return session.gateway('mail', 'send_email', mail)
  }
  const sent = await send('Jo <jo@customer.example>')
  story.same('tools that the session sees at the gateway', sent.listed, ['send_email'])
  story.same('what the mail server says', sent.said, {
    sent: false,
    recorded: true,
    to: ['Jo <jo@customer.example>'],
  })
  const refused = accessNeeded.parse((await send('jo@customer.example, eve@evil.example')).said)
  story.say('lend', `${refused.code}: ${refused.ask.items.map(nameOf).join(', ')}`)
  story.same('the item that the gateway names', refused.ask, {
    tool: 'iam.request_access',
    items: [{ permission: 'email:send', resource: 'domain/evil.example' }],
  })
}
