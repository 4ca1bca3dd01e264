const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)

/** A plain page for the moments when the web page itself cannot run. No script; readable too where its style is missing. */
export function messagePage(
  status: number,
  title: string,
  message: string,
  link?: { readonly href: string; readonly text: string },
): Response {
  const anchor = link
    ? `<p><a href="${escapeHtml(link.href)}">${escapeHtml(link.text)}</a></p>`
    : ''
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>${escapeHtml(title)}</title>
<link rel="icon" href="/favicon.svg" type="image/svg+xml"><link rel="stylesheet" href="/message.css">
<main><h1>${escapeHtml(title)}</h1><p>${escapeHtml(message)}</p>${anchor}</main></html>`
  return new Response(html, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy':
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
      'referrer-policy': 'no-referrer',
    },
  })
}
