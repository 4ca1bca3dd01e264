const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)

/** A plain page for the moments when the web page itself cannot run. No script, no style but the browser's own. */
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
<main><h1>${escapeHtml(title)}</h1><p>${escapeHtml(message)}</p>${anchor}</main></html>`
  return new Response(html, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy':
        "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
      'referrer-policy': 'no-referrer',
    },
  })
}
