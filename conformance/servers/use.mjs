#!/usr/bin/env node
// use.mjs CLIENTS URL SPEC [--hold]: three sessions of each SDK client at a server, as SPEC (JSON, see catalogue.mjs) says; use.py is
// the same in Python. A line for each check: `ok|FAIL<TAB>client<TAB>check<TAB>detail`. It exits without closing its sessions: no DELETE.
// With --hold: one session of each, with a long call if the server has one; prints `holding` and runs until stdin ends.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const PATIENCE = { timeout: 60_000 };
const [kinds, url, file, hold] = process.argv.slice(2);
const spec = JSON.parse(readFileSync(file, 'utf8'));

/** The SDK v1, over streamable HTTP or HTTP+SSE, or, as v1-stdio, over stdio: URL is then a command line as JSON. */
async function version1(kind, info) {
  const [{ Client }, { SSEClientTransport }, { StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all(
    ['index', 'sse', 'streamableHttp', 'stdio'].map(module => import(`@modelcontextprotocol/sdk/client/${module}.js`)));
  const client = new Client(info, { capabilities: {} });
  const transports = {
    'v1-sse': () => new SSEClientTransport(new URL(url.replace(/mcp$/, 'sse'))),
    'v1-http': () => new StreamableHTTPClientTransport(new URL(url)),
    'v1-stdio': () => { const [command, ...args] = JSON.parse(url); return new StdioClientTransport({ command, args, stderr: 'ignore' }); },
  };
  await client.connect(transports[kind](), PATIENCE);
  return { client, call: (tool, args, o) => client.callTool({ name: tool, arguments: args }, undefined, { ...PATIENCE, ...o }) };
}

/** The SDK v2, in the era of the client's name. */
async function version2(kind, info) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const versionNegotiation = { 'v2-modern': { mode: { pin: '2026-07-28' } }, 'v2-legacy': { mode: 'legacy' }, 'v2-auto': { mode: 'auto', probe: { timeoutMs: 60_000 } } }[kind];
  const client = new Client(info, { capabilities: {}, versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)), PATIENCE);
  return { client, call: (tool, args, o) => client.callTool({ name: tool, arguments: args }, { ...PATIENCE, ...o }) };
}

async function connect(kind, name) {
  return { name, ...await (kind.startsWith('v1') ? version1 : version2)(kind, { name, version: '1.0.0' }) };
}

const fill = (value, who) => JSON.parse(JSON.stringify(value).replaceAll('${WHO}', who));

/** Makes one call and checks its text. ${WHO} in it is the name of the session, so that mixed-up sessions are noticed. */
async function check({ client, call, name }, of) {
  const one = fill(of, `${name}${process.pid}`);
  let result;
  if (one.tool) result = await call(one.tool, one.args ?? {});
  else if (one.uri) result = await client.readResource({ uri: one.uri }, PATIENCE);
  else result = await client.getPrompt({ name: one.prompt, arguments: one.args }, PATIENCE);
  assert.match(JSON.stringify(result.content ?? result.contents ?? result.messages), new RegExp(one.expect), `${one.tool ?? one.uri ?? one.prompt}: the result does not match`);
  assert.equal(Boolean(result.isError), Boolean(one.error), `${one.tool}: isError`);
}

/** Checks the lists that the server offers for the items that SPEC names. */
async function lists({ client }) {
  const able = client.getServerCapabilities() ?? {};
  const counts = [];
  for (const [what, list, key] of [['tools', 'listTools', 'name'], ['resources', 'listResources', 'uri'], ['prompts', 'listPrompts', 'name']]) {
    if (!able[what]) { assert.equal(spec[what], undefined, `${what} are not offered`); continue; }
    const items = (await client[list]({}, PATIENCE))[what];
    for (const wanted of spec[what] ?? []) assert.ok(items.some(i => i[key] === wanted), `${wanted} is not among the ${what}`);
    counts.push(`${items.length} ${what}`);
  }
  return counts.join(', ');
}

/** Checks that a cancelled call fails at once and that the session goes on. */
async function cancelled(session) {
  const { tool, args } = fill(spec.slow ?? spec.calls.find(c => c.tool), 'cancelled');
  const abort = new AbortController();
  let end;
  const call = session.call(tool, args ?? {}, { signal: abort.signal, onprogress: () => {} }).then(() => { end = 'answered'; }, error => { end = `refused: ${error.message}`; });
  if (spec.slow) await pause(300);
  if (spec.slow) assert.equal(end, undefined, 'it ended before it was cancelled');
  const begun = performance.now();
  abort.abort(new Error('changed my mind'));
  await call;
  if (spec.slow) assert.match(end, /^refused/);
  assert.ok(performance.now() - begun < 2000, 'the end took long');
  await check(session, spec.calls.find(c => c.tool && !c.once));
  return spec.slow ? '' : 'a quick call: it may have been answered';
}

let failed = false;
async function judge(kind, name, f) {
  const begun = performance.now();
  let word = 'ok';
  let text;
  try {
    text = await f();
  } catch (error) {
    failed = true;
    word = 'FAIL';
    text = String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 300);
  }
  console.log(`${word}\t${kind}\t${name}\t${text ? `${text}, ` : ''}${Math.round(performance.now() - begun)} ms`);
}

/** Runs all checks with one kind of client. */
async function use(kind) {
  const again = spec.calls.filter(c => !c.once);
  const all = [];
  await judge(kind, 'connect', async () => { all.push(await connect(kind, 'ann')); });
  if (all.length === 0) return;
  await judge(kind, 'lists', () => lists(all[0]));
  await judge(kind, 'calls', async () => { for (const call of spec.calls) await check(all[0], call); return `${spec.calls.length} calls`; });
  if (kind === 'v1-stdio') { // other sessions would be other Dragomans
    await all[0].client.close();
    return;
  }
  await judge(kind, 'three sessions', async () => {
    all.push(...await Promise.all(['bob', 'cy'].map(name => connect(kind, name))));
    const each = all.flatMap(session => [...again, ...again].map(call => () => check(session, call)));
    if (spec.inTurn) for (const one of each) await one();
    else await Promise.all(each.map(one => one()));
    return `${each.length} calls ${spec.inTurn ? 'in turn' : 'at once'}`;
  });
  await judge(kind, 'cancel', () => cancelled(all[0]));
}

/** Opens a session and leaves a call running in it. */
async function stay(kind) {
  const session = await connect(kind, 'held');
  await check(session, spec.calls.find(c => c.tool && !c.once));
  const long = spec.slow ?? spec.hold;
  if (!long) return;
  session.call(long.tool, fill(long.args, 'held'), { onprogress: () => {} }).catch(() => {});
  await pause(200);
}

if (hold) {
  for (const kind of kinds.split(',')) await stay(kind);
  console.log('holding');
  process.stdin.on('end', () => process.exit(0)).resume();
} else {
  for (const kind of kinds.split(',')) await use(kind);
  process.exit(failed ? 1 : 0);
}
