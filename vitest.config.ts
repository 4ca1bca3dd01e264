import { defineConfig } from 'vitest/config'

// One project a folder, so that a run says what it left out and the quick ones run alone.
const project = (name: string, more: object = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    ...more,
  },
})

/** The question that the Postgres driver asks of each new connection, by a promise that nobody holds (see src/main.ts). */
const OF_THE_DRIVER = /select b\.oid, b\.typarray\s+from pg_catalog\.pg_type a/

export default defineConfig({
  test: {
    // Each file that opens an embedded database takes about 300 MB and a core while it starts.
    maxWorkers: 2,
    // A connection that a test cuts while it is made; every other error that nobody catches fails the run.
    onUnhandledError: (error) => !('query' in error && OF_THE_DRIVER.test(String(error.query))),
    projects: [
      project('core'),
      project('tidy'),
      project('tokens'),
      project('identity'),
      project('mcp'),
      project('enforce'),
      project('gateway'),
      project('http'),
      project('ops'),
      project('demo'),
      project('db'),
      project('race'),
      // Servers of their own, stopped and started: Postgres, Redis, PgBouncer, and Lend as a process.
      project('instances', { testTimeout: 60_000 }),
      project('faults', { testTimeout: 120_000 }),
      project('model', { testTimeout: 1_800_000 }),
      project('system', { testTimeout: 120_000 }),
      // A server, a browser and a page each: one file at a time, when the others are done.
      project('browser', {
        testTimeout: 120_000,
        hookTimeout: 180_000,
        fileParallelism: false,
        sequence: { groupOrder: 1 },
        globalSetup: ['test/browser/support/setup.ts'],
      }),
    ],
  },
})
