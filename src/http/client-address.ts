import { BlockList, isIP } from 'node:net'

const PLAIN_V4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

const plain = (address: string): string => PLAIN_V4.exec(address)?.[1] ?? address

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits] = network.split('/')
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return list
}

/** Whoever has one address of a network of this size has them all. */
const V6_WORDS_COUNTED = 4

/** One name for all addresses that are one subscriber's: an IPv6 address stands for its /64. */
function countedAs(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = (address.split('%')[0] ?? '').toLowerCase().split('::')
  const front = head === '' ? [] : head.split(':')
  const back = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - front.length - back.length)
  const words = [...front, ...Array<string>(zeros).fill('0'), ...back]
  return words
    .slice(0, V6_WORDS_COUNTED)
    .map((word) => word.replace(/^0+(?=.)/, ''))
    .join(':')
}

/**
 * Whose address a request came from: the connection's, or where that is a trusted proxy's, the last in `X-Forwarded-For` that
 * is none. What stands before it the client may have written itself. Null when it cannot be known.
 *
 * `direct`: clients connect by themselves. Otherwise a proxy stands in front, and an address of one that is not named
 * would be everybody's.
 */
export function clientAddress(of: {
  readonly trusted: readonly string[]
  readonly direct: boolean
}): (connected: string | undefined, forwarded: string | undefined) => string | null {
  const trusted = listOf(of.trusted)
  const isTrusted = (address: string): boolean =>
    of.trusted.length > 0 && trusted.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
  return (connected, forwarded) => {
    const peer = plain(connected ?? '')
    if (isIP(peer) === 0) return null
    if (!isTrusted(peer)) return of.direct || of.trusted.length > 0 ? countedAs(peer) : null
    const chain = (forwarded ?? '').split(',').map((one) => plain(one.trim()))
    for (const address of chain.toReversed()) {
      if (isIP(address) === 0) return null
      if (!isTrusted(address)) return countedAs(address)
    }
    return null
  }
}
