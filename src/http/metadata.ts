import { KINDS } from '../core/vocabulary.ts'
import { type Ctx, issuerOf, mcpUrlOf, toolGatewayUrlOf } from '../ports.ts'
import { ASSERTION_ALGS } from '../tokens/client-keys.ts'

/** RFC 8414 metadata of a tenant's issuer. */
export function serverMetadata(
  ctx: Pick<Ctx, 'publicUrl'>,
  tenant: string,
  grantTypes: readonly string[],
) {
  const issuer = issuerOf(ctx, tenant)
  const methods = ['private_key_jwt', 'client_secret_basic', 'client_secret_post']
  return {
    issuer,
    token_endpoint: `${issuer}/oauth/token`,
    jwks_uri: `${issuer}/oauth/jwks`,
    introspection_endpoint: `${issuer}/oauth/introspect`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    grant_types_supported: grantTypes,
    // No grant uses an authorization endpoint, so there is none and no response type.
    response_types_supported: [],
    token_endpoint_auth_methods_supported: methods,
    token_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGS,
    introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    revocation_endpoint_auth_methods_supported: methods,
    revocation_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGS,
    authorization_details_types_supported: KINDS.map((kind) => `lend_${kind}`),
    // MCP clients refuse a server that leaves it out.
    code_challenge_methods_supported: ['S256'],
  }
}

/** RFC 9728 metadata of a tenant's MCP endpoint. */
export const resourceMetadata = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string) =>
  metadataOf(ctx, tenant, {
    resource: mcpUrlOf(ctx, tenant),
    resource_name: `Lend access tools (${tenant})`,
  })

/** The same of one address of the tool gateway: of any, so that nobody learns from it which servers there are. */
export const toolGatewayMetadata = (ctx: Pick<Ctx, 'publicUrl'>, tenant: string, server: string) =>
  metadataOf(ctx, tenant, {
    resource: toolGatewayUrlOf(ctx, tenant, server),
    resource_name: `Tools of ${server}, behind Lend (${tenant})`,
  })

function metadataOf(
  ctx: Pick<Ctx, 'publicUrl'>,
  tenant: string,
  of: { readonly resource: string; readonly resource_name: string },
) {
  return {
    ...of,
    authorization_servers: [issuerOf(ctx, tenant)],
    jwks_uri: `${issuerOf(ctx, tenant)}/oauth/jwks`,
    bearer_methods_supported: ['header'],
    authorization_details_types_supported: KINDS.map((kind) => `lend_${kind}`),
  }
}
