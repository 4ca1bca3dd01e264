import { BlockList, isIPv4, isIPv6 } from 'node:net'

/**
 * IPv4 is mostly public, so what is special is listed (IANA IPv4 special-purpose registry, RFC
 * 6890).
 */
const SPECIAL_IPV4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const

/**
 * IPv6 is mostly not public: only 2000::/3 is given out. Everything else is refused by not being in
 * it: loopback, unspecified, mapped and NAT64 IPv4, unique local, link local, multicast.
 */
const PUBLIC_IPV6 = ['2000::', 3] as const

/**
 * Inside 2000::/3: protocol assignments with Teredo, documentation twice, and 6to4, which wraps any
 * IPv4 address.
 */
const SPECIAL_IPV6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const

const specialIpv4 = new BlockList()
for (const [net, bits] of SPECIAL_IPV4) specialIpv4.addSubnet(net, bits, 'ipv4')

const publicIpv6 = new BlockList()
publicIpv6.addSubnet(...PUBLIC_IPV6, 'ipv6')

const specialIpv6 = new BlockList()
for (const [net, bits] of SPECIAL_IPV6) specialIpv6.addSubnet(net, bits, 'ipv6')

/**
 * Whether a literal address belongs to the public internet. Anything that is not an address does
 * not.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !specialIpv4.check(address, 'ipv4')
  // A zone (`fe80::1%eth0`) only makes sense on a link of our own.
  if (!isIPv6(address) || address.includes('%')) return false
  return publicIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6')
}
