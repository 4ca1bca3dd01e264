import { createHash } from 'node:crypto'

/** The demo provider's few pages. Server-rendered, no script, nothing from elsewhere. */

const STYLE = `
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif }
body { max-width: 26rem; margin: 12vh auto; padding: 0 1rem }
h1 { font-size: 1.35rem; margin: 0 0 .25rem }
p { margin: 0 0 1rem }
p small { opacity: .75 }
ul { list-style: none; margin: 0 0 1.5rem; padding: 0 }
li { margin: 0 0 .5rem }
button, input { font: inherit; padding: .55rem .75rem }
button, input { border: 1px solid #8886; border-radius: .4rem }
button { cursor: pointer }
li button { width: 100%; text-align: left }
label { display: block; margin: 0 0 .5rem }
input { display: block; width: 100%; box-sizing: border-box }
:focus-visible { outline: 3px solid #3b6fe0; outline-offset: 2px }
[role=alert] { border-left: 4px solid #b3261e; padding-left: .75rem }
`

/**
 * Sent with every answer of the demo provider. `script-src` is empty on purpose: oidc-provider adds
 * the hash of its own two lines where it must post a form by itself, and nothing else can run.
 */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    'script-src',
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join(';'),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  // Not `no-referrer`: that would also blank the Origin that forms are checked by.
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '')

/** `body` is HTML already; `title` is text. */
export const page = (title: string, body: string): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body><main>
${body}
</main></body>
</html>
`

export type DemoPerson = { readonly login: string; readonly name: string; readonly email: string }

export function signInPage(options: {
  readonly tenant: string
  readonly app: string
  readonly action: string
  readonly people: readonly DemoPerson[]
  readonly problem?: string
}): string {
  const action = escapeHtml(options.action)
  const people = options.people.map(({ login, name, email }) => {
    const value = escapeHtml(login)
    return `<li><form method="post" action="${action}">
<input type="hidden" name="login" value="${value}">
<input type="hidden" name="password" value="${value}">
<button type="submit">${escapeHtml(name)} <small>${escapeHtml(email)}</small></button>
</form></li>`
  })
  const problem =
    options.problem === undefined ? '' : `<p role="alert">${escapeHtml(options.problem)}</p>`
  return page(
    `Sign in to ${options.tenant}`,
    `<h1>Sign in to ${escapeHtml(options.tenant)}</h1>
<p>to continue to ${escapeHtml(options.app)}</p>
${problem}
<ul>
${people.join('\n')}
</ul>
<form method="post" action="${action}">
<label>Login <input name="login" autocomplete="username" required maxlength="64"></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required
 maxlength="64"></label>
<p><small>This is a demo: everyone’s password is their login.</small></p>
<button type="submit">Sign in</button>
</form>`,
  )
}

/**
 * `form` is oidc-provider's own, with its token against forged requests; its id is `op.logoutForm`.
 */
export const signOutPage = (tenant: string, form: string): string =>
  page(
    `Sign out of ${tenant}`,
    `<h1>Sign out of ${escapeHtml(tenant)}?</h1>
${form}
<p><button type="submit" form="op.logoutForm" name="logout" value="yes" autofocus>Sign out</button>
<button type="submit" form="op.logoutForm">Stay signed in</button></p>`,
  )

export const messagePage = (title: string, message: string): string =>
  page(title, `<h1>${escapeHtml(title)}</h1>\n<p>${escapeHtml(message)}</p>`)
