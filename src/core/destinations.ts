import { canonicalResource } from './resource.ts'

/**
 * Where a tool call goes, taken from its arguments (SPEC sections 2 and 9): e-mail addresses in the forms of RFC 5322 and
 * RFC 6532, http(s) addresses and bare domain names, one or many. The program behind the gateway reads the same text with a
 * parser of its own, so what two readers could read differently is refused, never guessed.
 */
export type Destinations =
  /** Canonical resources, as in `domain/customer.example`; each once, never none. */
  | { readonly ok: true; readonly resources: readonly string[] }
  | { readonly ok: false; readonly path: string; readonly why: string }

const TEXT_LENGTH_MAX = 10_000
const LIST_MAX = 100
/** One atom of a local part. `%` and `!` are not among them: old mail routers read them as another domain. */
const LOCAL = /^[\p{L}\p{M}\p{N}#$&'*+/=?^_`{|}~-]+(\.[\p{L}\p{M}\p{N}#$&'*+/=?^_`{|}~-]+)*$/u
/** What may stand between the quotes of a local part. */
const QUOTED_LOCAL = /^[\p{L}\p{M}\p{N} .#$&'*+/=?^_`{|}~-]+$/u
/** A phrase before an angle bracket: anything that means nothing to any reader. */
const PHRASE = /^[^@<>()[\]:;,"\\]*$/u
const MEANS_SOMETHING = /[@<>()[\]:;,"\\./]/gu

const no = (why: string) => ({ ok: false, why }) as const
type Read = { readonly ok: true; readonly domains: readonly string[] } | ReturnType<typeof no>

function domainOf(text: string): { readonly ok: true; readonly value: string } | null {
  if (text === '' || text.includes('*')) return null
  const canonical = canonicalResource(`domain/${text}`)
  // A name that ends in a number is an IPv4 address in one of its many spellings.
  if (!canonical.ok || /(^|[./])\d+$/.test(canonical.value)) return null
  return canonical
}

type Token = { readonly kind: 'text' | 'quoted' | 'mark'; readonly text: string }

/** RFC 5322 section 3.2: quoted strings and comments end where they end; comments are dropped. Null: one does not end. */
function tokensOf(text: string): readonly Token[] | null {
  const tokens: Token[] = []
  let depth = 0
  let quoted: string | null = null
  for (const char of text) {
    if (quoted !== null) {
      if (char === '"') {
        tokens.push({ kind: 'quoted', text: quoted })
        quoted = null
      } else quoted += char
    } else if (char === '(') depth++
    else if (char === ')' && depth > 0) {
      depth--
      tokens.push({ kind: 'text', text: ' ' })
    } else if (depth > 0) continue
    else if (char === '"') quoted = ''
    else if ('<>,;:'.includes(char)) tokens.push({ kind: 'mark', text: char })
    else tokens.push({ kind: 'text', text: char })
  }
  return depth > 0 || quoted !== null ? null : tokens
}

/** `local@domain` with nothing around it but space. */
function addressIn(tokens: readonly Token[]): string | null {
  const quoted = tokens.filter((token) => token.kind === 'quoted')
  if (tokens.some((token) => token.kind === 'mark') || quoted.length > 1) return null
  // The quoted string stands for itself as one letter that no address has.
  const flat = tokens.map((token) => (token.kind === 'quoted' ? '\0' : token.text)).join('')
  const [, local = '', domain = ''] = /^ *([^ @]+)@([^ @]+) *$/u.exec(flat) ?? []
  const good = local === '\0' ? QUOTED_LOCAL.test(quoted[0]?.text ?? '') : LOCAL.test(local)
  return good && (quoted.length === 0 || local === '\0') ? domain : null
}

/** `Ana <ana@x.example>` or a bare address. A quoted name may hold what a phrase may not. */
function mailboxIn(tokens: readonly Token[]): string | null {
  const open = tokens.findIndex((token) => token.text === '<' && token.kind === 'mark')
  if (open === -1) return addressIn(tokens)
  const close = tokens.findIndex((token) => token.text === '>' && token.kind === 'mark')
  const name = tokens.slice(0, open)
  const named = name.every((token) => token.kind !== 'mark')
  const phrase = name.map((token) => (token.kind === 'text' ? token.text : '')).join('')
  const after = tokens.slice(close + 1)
  if (close < open || !named || !PHRASE.test(phrase)) return null
  if (after.some((token) => token.kind !== 'text' || token.text !== ' ')) return null
  return addressIn(tokens.slice(open + 1, close))
}

/** Splits a list of RFC 5322 section 3.4 at its commas and semicolons; the name of a group is dropped. */
function mailboxesOf(tokens: readonly Token[]): readonly (readonly Token[])[] | null {
  const lists: Token[][] = [[]]
  let inAngle = false
  for (const token of tokens) {
    const list = lists.at(-1) ?? []
    if (token.kind === 'mark' && token.text === ':') {
      const isName = list.every((one) => one.kind !== 'mark' && one.text !== '@')
      if (inAngle || !isName || list.every((one) => one.text.trim() === '')) return null
      list.length = 0
    } else if (token.kind === 'mark' && ',;'.includes(token.text)) {
      if (inAngle) return null
      lists.push([])
    } else {
      if (token.kind === 'mark') inAngle = token.text === '<'
      list.push(token)
    }
  }
  return lists.filter((list) => list.some((one) => one.kind !== 'text' || one.text !== ' '))
}

/** Every domain that stands behind an `@`, wherever: what the simplest reader would find. */
function simplyRead(text: string): readonly (string | null)[] {
  return [...text.matchAll(/@([^\s,;<>()"':@[\]\\]*)/gu)].map(
    ([, after = '']) => domainOf(after)?.value ?? null,
  )
}

function mailIn(text: string): Read {
  const tokens = text.includes('\\') ? null : tokensOf(text)
  const mailboxes = tokens === null ? null : mailboxesOf(tokens)
  if (mailboxes === null) return no('is not a list of e-mail addresses')
  const domains = mailboxes.map((mailbox) => {
    const domain = mailboxIn(mailbox)
    return domain === null ? null : (domainOf(domain)?.value ?? null)
  })
  const read = domains.flatMap((domain) => (domain === null ? [] : [domain]))
  if (read.length !== domains.length) return no('has an address that is not a plain one')
  if (read.length === 0) return no('names nobody')
  const simply = new Set(simplyRead(text))
  const same = simply.size === new Set(read).size && read.every((domain) => simply.has(domain))
  return same
    ? { ok: true, domains: read }
    : no('can be read in more than one way: name plain addresses')
}

function urlIn(text: string): Read {
  const [, authority = ''] = /^https?:\/\/([^/?#]*)/i.exec(text) ?? []
  if (authority === '' || /[@%]/.test(authority) || /[\\\s]/u.test(text))
    return no('is not a plain http address')
  const domain = domainOf(authority.replace(/:\d{1,5}$/, ''))
  return domain === null
    ? no('is not an address of a named host')
    : { ok: true, domains: [domain.value] }
}

function textIn(text: string): Read {
  if (text.length > TEXT_LENGTH_MAX) return no(`is longer than ${TEXT_LENGTH_MAX} characters`)
  if (/\p{C}|[^\S ]/u.test(text)) return no('has a line break, control or invisible character')
  // A reader that folds compatibility characters finds marks where another finds letters.
  const folded = text.normalize('NFKC')
  const marks = (of: string) => of.match(MEANS_SOMETHING)?.join('') ?? ''
  if (marks(folded) !== marks(text)) return no('has a character that looks like another')
  if (/^\s*[a-z][a-z0-9+.-]*:\/\//i.test(text)) return urlIn(text)
  if (text.includes('@')) return mailIn(text)
  // A word alone is somebody's name as well as a host's.
  const domain = text.includes('.') ? domainOf(text) : null
  return domain === null ? no('is not a destination') : { ok: true, domains: [domain.value] }
}

const unescaped = (token: string): string => token.replaceAll('~1', '/').replaceAll('~0', '~')
const sameLetters = (name: string): string => name.normalize('NFKC').toLowerCase()

/** RFC 6901. A sibling that differs in case only is refused: some programs read the last of the two. */
function valueAt(args: unknown, pointer: string): { readonly value: unknown } | string {
  let at = args
  for (const token of pointer.split('/').slice(1).map(unescaped)) {
    if (typeof at !== 'object' || at === null) return 'is required'
    const twins = Object.keys(at).filter((key) => sameLetters(key) === sameLetters(token))
    if (twins.length > 1) return 'is named more than once'
    if (!Object.hasOwn(at, token)) return 'is required'
    at = Reflect.get(at, token)
  }
  return { value: at }
}

/** The destinations that `pointer` leads to in a call's arguments. Pure; never throws. */
export function destinationsIn(args: unknown, pointer: string): Destinations {
  const path = pointer.slice(1).replaceAll('/', '.')
  const found = valueAt(args, pointer)
  if (typeof found === 'string') return { ok: false, path, why: found }
  const list: readonly unknown[] = Array.isArray(found.value) ? found.value : [found.value]
  if (list.length === 0) return { ok: false, path, why: 'names nobody' }
  if (list.length > LIST_MAX)
    return { ok: false, path, why: `names more than ${LIST_MAX} destinations` }
  const resources = new Set<string>()
  for (const one of list) {
    const read: Read = typeof one === 'string' ? textIn(one) : no('must be text or a list of texts')
    if (!read.ok) return { ok: false, path, why: read.why }
    for (const domain of read.domains) resources.add(domain)
  }
  return { ok: true, resources: [...resources] }
}
