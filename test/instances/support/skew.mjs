// Preloaded into an instance: its machine's clock is off by so many seconds.
const { now } = Date
const by = Number(process.env.LEND_TEST_SKEW_SECONDS) * 1000
const RealDate = Date
globalThis.Date = class extends RealDate {
  constructor(...given) {
    if (given.length === 0) super(now() + by)
    else super(...given)
  }
  static now() {
    return now() + by
  }
}
