/**
 * The reference agent app: an ordinary client of Lend. It knows what any app would be told when it is registered, and
 * reaches Lend, the identity provider and the services over HTTP only. It may import nothing of Lend's core or database.
 */
export type AppTenant = {
  readonly slug: string
  /** The agent's client at Lend. */
  readonly agent: { readonly id: string; readonly secret: string; readonly name: string }
  readonly templates: readonly { readonly name: string; readonly title: string }[]
  /** The app's own client at the organisation's identity provider. */
  readonly signIn: {
    readonly issuer: string
    readonly clientId: string
    readonly clientSecret: string
    readonly privateNetwork: boolean
  }
}

export type AppConfig = {
  /** Where Lend, the services and this app are reached, without a trailing slash. */
  readonly publicUrl: string
  readonly tenants: readonly AppTenant[]
  /** Where transcripts are kept; null: nowhere. */
  readonly folder: string | null
  /** With a key the brain is a real model; without, the script. */
  readonly anthropicKey?: string
  readonly onBug: (error: unknown) => void
}
