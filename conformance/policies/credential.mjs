// Adds the API key of with.sh to the requests of Node.js clients to this machine; loaded by --import. Requests with a credential of
// their own keep it.
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';

const key = process.env.POLICIES_KEY;
const local = /^(localhost|127\.0\.0\.1|\[?::1\]?)$/;

if (key) {
  const credential = `Bearer ${key}`;
  const plain = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    const url = new URL(input instanceof Request ? input.url : input);
    if (!local.test(url.hostname) || headers.has('authorization')) return plain(input, init);
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
  // The official suite sends some requests by undici itself, where it sets Host.
  if (/@modelcontextprotocol\/conformance\//.test(process.argv[1] ?? '')) {
    const { getGlobalDispatcher, setGlobalDispatcher } = await import('undici');
    setGlobalDispatcher(getGlobalDispatcher().compose(dispatch => (options, handler) => {
      const { headers = {}, origin } = options;
      const names = Array.isArray(headers) ? headers : [...(headers.keys?.() ?? Object.keys(headers))];
      if (!local.test(new URL(origin).hostname) || names.some(n => String(n).toLowerCase() === 'authorization')) return dispatch(options, handler);
      if (Array.isArray(headers)) return dispatch({ ...options, headers: [...headers, 'authorization', credential] }, handler);
      return dispatch({ ...options, headers: { ...(headers.entries ? Object.fromEntries(headers.entries()) : headers), authorization: credential } }, handler);
    }));
  }
}
