import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

/**
 * Builds the page into dist/web: index.html, assets/ with a hash in every name, and two small files without one
 * (theme.js, favicon.svg). Nothing in it is inline, so the Content-Security-Policy is 'self' alone and needs no hash.
 */
export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/',
  plugins: [react()],
  build: {
    outDir: fileURLToPath(new URL('../dist/web', import.meta.url)),
    emptyOutDir: true,
    target: 'es2022',
    // A data: address is an inlined asset; images of this origin are cached just as well.
    assetsInlineLimit: 0,
    // It would be an inline script's worth of code for browsers that are not supported anyway.
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
})
