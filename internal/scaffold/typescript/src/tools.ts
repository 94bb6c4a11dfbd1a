// The tools. Add one by calling server.tool.
import dns from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import * as z from 'zod/v4';
import { TransientError } from './capabilities.js';
import { message } from './config.js';
import { ToolError } from './server.js';
import type { Server } from './server.js';

export const MAX_BYTES = 1024 * 1024;
const MAX_REDIRECTS = 5;

/** Register the tools of this module. */
export function register(server: Server): void {
  server.tool({
    name: 'fetch_url',
    description: 'Fetch the text of a public web page, over http or https.',
    inputSchema: z.object({
      url: z.url().describe('an http or https URL'),
      timeout_seconds: z.int().min(1).max(60).default(10),
    }),
    retry: { attempts: 3, delaySeconds: 0.2 },
    threadSafe: true,
    handler: ({ url, timeout_seconds }, signal) => fetchText(url, timeout_seconds, signal),
  });
}

// What IANA's registries of special-purpose addresses have, and addresses that carry an IPv4 one:
// NAT64, 6to4 and Teredo. ::ffff:0:0/96 is judged as the IPv4 address in it.
const SPECIAL: [string, number][] = [
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
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
];
const special = new net.BlockList();
for (const [address, bits] of SPECIAL) {
  special.addSubnet(address, bits, net.isIPv4(address) ? 'ipv4' : 'ipv6');
}
const global6 = new net.BlockList(); // all other IPv6 addresses are special
global6.addSubnet('2000::', 3, 'ipv6');

/** Report whether an address belongs to the internet: not private, loopback or link-local. */
export function isPublic(address: string): boolean {
  if (net.isIPv4(address)) return !special.check(address, 'ipv4');
  if (!net.isIPv6(address) || address.includes('%')) return false;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return isPublic(mapped);
  return global6.check(address, 'ipv6') && !special.check(address, 'ipv6');
}

/** How names are resolved and requests are sent; tests replace it. */
export interface Web {
  resolve: (host: string) => Promise<string[]>;
  get: (url: URL, address: string, signal: AbortSignal) => Promise<http.IncomingMessage>;
}

const web: Web = {
  resolve: async (host) =>
    (await dns.promises.lookup(host, { all: true })).map((one) => one.address),
  // The address that was checked is the one that is called: a name could have another by then.
  get: (url, address, signal) =>
    new Promise((answered, failed) => {
      const lookup: net.LookupFunction = (_host, options, done) => {
        const family = net.isIP(address);
        if (options.all === true) done(null, [{ address, family }]);
        else done(null, address, family);
      };
      const client = url.protocol === 'https:' ? https : http;
      const headers = { 'Accept-Encoding': 'identity' };
      client.get(url, { lookup, signal, headers, agent: false }, answered).on('error', failed);
    }),
};

/**
 * Fetch a text of at most MAX_BYTES. Throws a ToolError if the URL, an address, the answer or the
 * time is refused, and a TransientError if the server cannot be reached or has failed.
 */
export async function fetchText(
  url: string,
  timeoutSeconds: number,
  outer: AbortSignal = new AbortController().signal,
  by: Web = web,
): Promise<string> {
  const late = AbortSignal.timeout(timeoutSeconds * 1000);
  const signal = AbortSignal.any([outer, late]);
  try {
    let target = url;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const answer = await aborted(one(target, signal, by), signal);
      if (answer.location === undefined) return answer.text;
      target = new URL(answer.location, target).href;
    }
  } catch (error) {
    if (late.aborted) throw new ToolError(`no answer within ${timeoutSeconds} s`);
    if (error instanceof ToolError || error instanceof TransientError || outer.aborted) throw error;
    throw new TransientError(`${url.slice(0, 200)} cannot be fetched: ${message(error)}`);
  }
  throw new ToolError(`more than ${MAX_REDIRECTS} redirects`);
}

function aborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    work.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', stop);
    });
  });
}

async function one(
  text: string,
  signal: AbortSignal,
  by: Web,
): Promise<{ text: string; location?: string }> {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new ToolError('not a URL');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ToolError('only http and https URLs are fetched');
  }
  if (url.username !== '' || url.password !== '') {
    throw new ToolError('a URL with credentials is not fetched');
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = net.isIP(host) ? [host] : await by.resolve(host);
  const address = addresses[0];
  if (address === undefined || !addresses.every(isPublic)) {
    throw new ToolError(`${host} has an address that is not public`);
  }
  const response = await by.get(url, address, signal);
  try {
    return await body(response, host);
  } finally {
    response.destroy();
  }
}

async function body(
  response: http.IncomingMessage,
  host: string,
): Promise<{ text: string; location?: string }> {
  const status = response.statusCode ?? 0;
  const { location } = response.headers;
  if (status >= 300 && status < 400 && location !== undefined) return { text: '', location };
  if ([502, 503, 504].includes(status)) throw new TransientError(`${host} answered ${status}`);
  if (status >= 300) throw new ToolError(`${host} answered ${status}`);
  if ((response.headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new ToolError(`${host} answers compressed, though it was not asked to`);
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new ToolError(`the answer has more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { text: Buffer.concat(chunks).toString('utf8') };
}
