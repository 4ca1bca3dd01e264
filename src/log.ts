import pino from 'pino'

const MESSAGE_LENGTH_MAX = 300
const CAUSES_MAX = 4

const stringIn = (error: object, name: string): string | undefined => {
  const value: unknown = Reflect.get(error, name)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/**
 * What a log may say of an error: an allow-list, since drivers hang the statement's parameters on their errors, and those
 * are people's words, ids and credentials. Drizzle even writes them into the message, so its message is left out.
 */
export function errorFields(error: unknown, depth = 0): object {
  if (!(error instanceof Error)) return { type: typeof error }
  const drizzle = error.constructor.name === 'DrizzleQueryError'
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at ')) ?? []
  return {
    type: error.constructor.name,
    message: drizzle ? 'a statement failed' : error.message.slice(0, MESSAGE_LENGTH_MAX),
    code: stringIn(error, 'code'),
    constraint: stringIn(error, 'constraint_name') ?? stringIn(error, 'constraint'),
    flow: stringIn(error, 'flow'),
    stack: frames.join('\n'),
    ...(error.cause === undefined || depth >= CAUSES_MAX
      ? {}
      : { cause: errorFields(error.cause, depth + 1) }),
    ...(error instanceof AggregateError
      ? { errors: error.errors.slice(0, CAUSES_MAX).map((one) => errorFields(one, depth + 1)) }
      : {}),
  }
}

/** JSON lines. Tokens, secrets and the parameters of statements never get in. */
export const createLog = (
  level: string,
  destination?: pino.DestinationStream,
  /** What every line says beside its own: of which trace it is. */
  also: () => object = () => ({}),
): pino.Logger =>
  pino(
    {
      level,
      base: null,
      mixin: also,
      serializers: { err: errorFields },
      redact: [
        '*.token',
        '*.access_token',
        '*.refresh_token',
        '*.client_secret',
        '*.authorization',
        '*.cookie',
      ],
    },
    destination ?? pino.destination(1),
  )
