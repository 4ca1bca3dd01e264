/** Where the focus is sent on purpose: to the message box, and to the card that has waited longest. */
export const COMPOSER_ID = 'composer'

export const focusComposer = (): void => document.getElementById(COMPOSER_ID)?.focus()

/** For when what had the focus is gone with its work done: the page goes on from its top. */
export const focusMain = (): void => document.getElementById('main')?.focus()

/** False: that card is not on this screen. */
export function focusCard(requestId: string): boolean {
  const heading = document.getElementById(`card-${requestId}`)
  if (!heading) return false
  heading.focus({ preventScroll: true })
  heading.closest('[data-request]')?.scrollIntoView({ block: 'nearest', behavior: 'auto' })
  return true
}

let wanted: string | null = null

/** The card may come to be on the next screen: then it takes the focus when it is there. */
export const wantCard = (requestId: string): void => {
  wanted = requestId
}
export function takeWantedCard(): void {
  if (wanted !== null && focusCard(wanted)) wanted = null
}
