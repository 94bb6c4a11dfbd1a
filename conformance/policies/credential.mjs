// Makes clients on Node.js send the API key of with.sh to whatever is on this machine; loaded by --import. Whoever has a credential
// of its own keeps it.
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';

const key = process.env.POLICIES_KEY;
const local = /^(localhost|127\.0\.0\.1|\[?::1\]?)$/;

if (key) {
  const credential = `Bearer ${key}`;
  const plain = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const request = new Request(input, init && { ...init, ...(init.body && { duplex: 'half' }) });
    if (!local.test(new URL(request.url).hostname) || request.headers.has('authorization')) return plain(input, init);
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    headers.set('authorization', credential);
    return plain(input, { ...init, headers });
  };
  const request = http.request;
  http.request = (...args) => {
    const made = request(...args);
    if (local.test(made.host ?? '') && !made.headersSent && !made.hasHeader('authorization')) made.setHeader('authorization', credential);
    return made;
  };
  syncBuiltinESMExports();
}
