// Before the first paint, so that the page does not flash in the other theme. A file, not inline: the policy allows
// scripts of this origin only, and so needs no hash.
try {
  const theme = localStorage.getItem('lend.theme')
  if (theme === '"dark"' || theme === '"light"')
    document.documentElement.dataset.theme = JSON.parse(theme)
} catch (_) {
  // No storage: the system's theme it is.
}
