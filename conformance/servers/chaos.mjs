// Calls of good servers while others at the same endpoint are killed, hang, are slow and lie, against the same calls while nobody calls those.
import http from 'node:http';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { HERE } from './catalogue.mjs';

const MANNERS = ['killed', 'hung', 'slow', 'lying'];
const ROUNDS = 7;
const PHASE = 3000; // ms
const CALLERS = 4; // of good servers
const BAD_EVERY = 50; // ms between two calls of one bad server
const BAD_PATIENCE = 1000; // ms until such a call is given up
const MOST = { p50: 1.2, p99: 2 }; // times that of before
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'chaos', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };

/** The bad servers, as members. */
export const bad = dir => MANNERS.map(name => ({ name: `bad-${name}`, era: 'legacy', dir, command: [process.execPath, path.join(HERE, 'own/bad.mjs'), name] }));

/** Calls a tool; resolves to the text of the answer. */
function call(agent, url, name, args, signal) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args, _meta: META } });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': name };
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent, headers, signal }, response => {
      let text = '';
      response.on('data', data => { text += data; });
      response.on('end', () => resolve(text));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** Calls a bad server again and again until `over()`. Its answers do not matter. */
async function torment(agent, url, manner, over) {
  const open = new Set();
  while (!over()) {
    const one = call(agent, url, `bad-${manner}.act`, {}, AbortSignal.timeout(BAD_PATIENCE)).catch(() => {}).finally(() => open.delete(one));
    open.add(one);
    await pause(BAD_EVERY);
  }
  await Promise.all(open);
}

/** Calls good servers in turn for a time; resolves to the sorted times in ms, and to what was wrong. */
async function phase(url, calls, isBad) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
  const times = [];
  const wrong = [];
  const end = performance.now() + PHASE;
  const over = () => performance.now() > end;
  let next = 0;
  const caller = async () => {
    while (!over()) {
      const { tool, args, expect } = calls[next++ % calls.length];
      const begun = performance.now();
      const text = await call(agent, url, tool, args).catch(error => error.message);
      times.push(performance.now() - begun);
      if (!new RegExp(expect).test(text)) wrong.push(`${tool}: ${text.slice(0, 200)}`);
    }
  };
  await Promise.all([...Array.from({ length: CALLERS }, caller), ...(isBad ? MANNERS.map(m => torment(agent, url, m, over)) : [])]);
  agent.destroy();
  return { times: times.sort((a, b) => a - b), wrong };
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
const median = values => quantile([...values].sort((a, b) => a - b), 0.5);

/** Measures rounds of both kinds in turn, at an endpoint whose members are those of `calls` and the bad ones. */
export async function chaos(url, calls, say) {
  const ratios = { p50: [], p99: [] };
  const wrong = [];
  let count = 0;
  let last;
  for (let i = 0; i < ROUNDS; i++) {
    const before = await phase(url, calls, false);
    const during = await phase(url, calls, true);
    for (const [name, q] of [['p50', 0.5], ['p99', 0.99]]) ratios[name].push(quantile(during.times, q) / quantile(before.times, q));
    wrong.push(...before.wrong, ...during.wrong);
    count += during.times.length;
    last = [before, during].map(({ times }) => `${quantile(times, 0.5).toFixed(2)} and ${quantile(times, 0.99).toFixed(1)} ms`);
  }
  say('bad servers', 'answers of the others', wrong.length ? `${wrong.length} wrong: ${wrong[0]}` : undefined, `${count} calls of ${calls.length} servers while ${MANNERS.length} others misbehave`);
  for (const name of ['p50', 'p99']) {
    const ratio = median(ratios[name]);
    say('bad servers', `${name} of the others`, ratio <= MOST[name] ? undefined : `${ratio.toFixed(2)} times that of before, at most ${MOST[name]}`,
      `${ratio.toFixed(2)} times that of before (${Math.min(...ratios[name]).toFixed(2)}–${Math.max(...ratios[name]).toFixed(2)}); in the last round p50 and p99 were ${last.join(', then ')}`);
  }
}
