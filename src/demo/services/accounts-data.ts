/**
 * The accounts that the demo's services know: the same at every start, except that renewals stay as
 * near as they were.
 */
export type Account = {
  readonly id: string
  readonly name: string
  readonly region: 'emea' | 'amer' | 'apac'
  readonly owner: string
  readonly segment: 'enterprise' | 'mid-market' | 'small'
  readonly renewal_date: string
  readonly renewal_in_days: number
  readonly arr: number
  readonly phone: string
}

const NAMES = {
  emea: [
    'Northwind Ferries',
    'Baltic Grain',
    'Alpenglow Hotels',
    'Lisbon Tramways',
    'Harbour & Finch',
    'Oslo Timber',
    'Caspian Textiles',
    'Rhine Instruments',
    'Marrakech Spice',
    'Dublin Glassworks',
  ],
  amer: [
    'Prairie Solar',
    'Hudson Bindery',
    'Cascade Outfitters',
    'Bluegrass Dairy',
    'Yucatan Cement',
    'Andes Coffee',
    'Great Lakes Rail',
    'Mesa Robotics',
    'Patagonia Wool',
  ],
  apac: [
    'Kyoto Ceramics',
    'Tasman Shipping',
    'Mekong Rice',
    'Pearl River Optics',
    'Deccan Motors',
    'Coral Coast Tours',
    'Straits Bank',
    'Hokkaido Foods',
    'Outback Drones',
  ],
} as const satisfies Record<Account['region'], readonly string[]>

const OWNERS = { emea: 'maya', amer: 'omar', apac: 'lin' } as const
const SEGMENTS = ['enterprise', 'mid-market', 'small'] as const
const DAYS = [12, 27, 41, 58, 76, 89, 120, 164, 215, 301] as const
const DAY_MILLIS = 24 * 3600 * 1000

const dateIn = (days: number, now: number): string =>
  new Date(now + days * DAY_MILLIS).toISOString().slice(0, 10)

/** All accounts. `now` in milliseconds. */
export function accountsAt(now: number): readonly Account[] {
  return Object.entries(NAMES).flatMap(([key, names], r) =>
    names.map((name, i): Account => {
      const region = key as Account['region']
      const days = DAYS[i % DAYS.length] ?? 0
      return {
        id: `acc-${region}-${i + 1}`,
        name,
        region,
        owner: OWNERS[region],
        segment: SEGMENTS[(i + r) % SEGMENTS.length] ?? 'small',
        renewal_date: dateIn(days, now),
        renewal_in_days: days,
        arr: 18_000 + 7_500 * ((i * 5 + r * 3) % 11),
        // Numbers that are kept for fiction.
        phone: `+1 555 01${String(r * 10 + i).padStart(2, '0')}`,
      }
    }),
  )
}

export type Contract = {
  readonly id: string
  readonly account_id: string
  readonly list_price: number
  readonly discount: number
  readonly net_price: number
}

/** The contract of an account; its id is `ctr-` and the account's own. */
export function contractOf(account: Account): Contract {
  const discount = account.segment === 'enterprise' ? 0.18 : account.segment === 'small' ? 0 : 0.1
  const list = Math.round(account.arr / (1 - discount))
  return {
    id: account.id.replace('acc-', 'ctr-'),
    account_id: account.id,
    list_price: list,
    discount,
    net_price: account.arr,
  }
}
