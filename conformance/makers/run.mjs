#!/usr/bin/env node
// Clients and servers of makers that conformance has no other cells of, each client at each server through Dragoman, compared with the same
// client at a server of its own transport. run.mjs [options] [CLIENT_RE [SERVER_RE]]
//   --short       as in CI: the clients on the MCP SDKs for Python and TypeScript at one or two servers each, and without those over stdio
//   --table FILE  writes the results to FILE, as Markdown
//   --jobs N      pairs at once (default 3)
// DRAGOMAN names the binary. Last line: `N passed, N failed` (pairs of client and server).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = dirname(fileURLToPath(import.meta.url));
const flag = { type: 'boolean', default: false };
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { short: flag, table: { type: 'string' }, jobs: { type: 'string', default: '3' } } });
const [clientRE, serverRE] = [0, 1].map(i => new RegExp(positionals[i] ?? '.'));
const dragoman = process.env.DRAGOMAN ?? join(here, '../../dragoman');
const LIMIT = 60_000; // for one client at one server

const java = ['java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', `${here}/.java/classes:${here}/.java/lib/*`, 'Maker'];
const rmcp = [`${here}/.rust/debug/maker-rmcp`];
const python = maker => [`${here}/.venv/bin/python`, `${here}/python/client.py`, maker];

// How each server is started, and what it speaks; stdio servers are started by Dragoman.
const SERVERS = {
  'java-http': { command: [...java, 'serve', 'http'] },
  'java-sse': { command: [...java, 'serve', 'sse'] },
  'java-stdio': { command: [...java, 'serve', 'stdio'], stdio: true },
  'rmcp-http': { command: [...rmcp, 'serve', 'http'] },
  'rmcp-stdio': { command: [...rmcp, 'serve', 'stdio'], stdio: true },
};

// How each client is started (without its target), over which transport it speaks, and where it is at home. One whose transport has a
// pitfall at home (as) is compared with another. brief names the servers of a short run, long leaves the client out of it.
const CLIENTS = {
  'java-http': { command: [...java, 'client', 'http'], over: 'http', home: 'java-http' },
  'java-sse': { command: [...java, 'client', 'sse'], over: 'sse', home: 'java-sse' },
  'java-stdio': { command: [...java, 'client', 'stdio'], over: 'stdio', home: 'java-stdio' },
  'openai-agents-http': { command: [...python('openai-agents'), 'http'], over: 'http', home: 'java-http', brief: ['java-sse'] },
  'openai-agents-sse': { command: [...python('openai-agents'), 'sse'], over: 'sse', as: 'openai-agents-http', brief: ['java-http', 'rmcp-stdio'] },
  'openai-agents-stdio': { command: [...python('openai-agents'), 'stdio'], over: 'stdio', home: 'java-stdio', long: true },
  'strands-http': { command: [...python('strands'), 'http'], over: 'http', home: 'java-http', brief: ['java-sse', 'rmcp-http'] },
  'strands-sse': { command: [...python('strands'), 'sse'], over: 'sse', as: 'strands-http', brief: ['java-http'] },
  'strands-stdio': { command: [...python('strands'), 'stdio'], over: 'stdio', home: 'java-stdio', long: true },
  'pydantic-ai-http': { command: [...python('pydantic-ai'), 'http'], over: 'http', home: 'java-http', brief: ['java-sse'] },
  'pydantic-ai-sse': { command: [...python('pydantic-ai'), 'sse'], over: 'sse', as: 'pydantic-ai-http', brief: ['java-http'] },
  'pydantic-ai-stdio': { command: [...python('pydantic-ai'), 'stdio'], over: 'stdio', home: 'java-stdio', long: true },
  'ai-sdk-http': { command: ['node', `${here}/npm/client.mjs`, 'http'], over: 'http', home: 'java-http', brief: ['java-sse'] },
  'ai-sdk-sse': { command: ['node', `${here}/npm/client.mjs`, 'sse'], over: 'sse', home: 'java-sse', brief: ['java-http'] },
  'ai-sdk-stdio': { command: ['node', `${here}/npm/client.mjs`, 'stdio'], over: 'stdio', home: 'java-stdio', long: true },
  'rmcp-legacy-http': { command: [...rmcp, 'client', 'legacy'], over: 'http', home: 'rmcp-http' },
  'rmcp-modern-http': { command: [...rmcp, 'client', 'modern'], over: 'http', home: 'rmcp-http' },
  'rmcp-legacy-stdio': { command: [...rmcp, 'client', 'legacy'], over: 'stdio', home: 'rmcp-stdio', long: true },
  'rmcp-modern-stdio': { command: [...rmcp, 'client', 'modern'], over: 'stdio', home: 'rmcp-stdio', long: true },
};

// What a client cannot have at a server, whoever is between them.
const KNOWN = [
  { clients: /^(strands|pydantic-ai)-sse$/, servers: /^java-sse$/, name: 'ask', why: 'the Java SDK asks in a session of 2024-11-05, in which the Python SDK knows no questions' },
];

// The longest times of a case, in milliseconds, for clients that print them. Each is below the wait that such a server once caused.
const LIMITS = [
  { clients: /^rmcp-/, servers: /^java-http$/, name: 'open', most: 2500, why: 'a session waited three seconds for a stream whose head comes with its first event' },
  { clients: /^rmcp-/, servers: /^java-sse$/, name: 'ask', most: 900, why: 'a question waited a second for the acknowledgement, which comes when the tool is done' },
  { clients: /^rmcp-/, servers: /^rmcp-http$/, name: 'call', most: 35, why: 'a call waited 40 ms for a delayed acknowledgement of TCP' },
];

const started = new Set();
const scratch = mkdtempSync(join(tmpdir(), 'makers.'));
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Starts a command in a process group of its own; `text()` is what it has printed. */
function start(command) {
  const child = spawn(command[0], command.slice(1), { detached: true, stdio: ['ignore', 'pipe', 'pipe'], cwd: scratch });
  let out = '';
  let err = '';
  child.stdout.on('data', data => { out += data; });
  child.stderr.on('data', data => { err = (err + data).slice(-2000); });
  const ended = new Promise(resolve => { child.on('close', resolve); child.on('error', error => { err += error.message; resolve(-1); }); });
  const kill = signal => { try { process.kill(-child.pid, signal); } catch { /* it is gone */ } };
  const job = { text: () => out, errors: () => err, ended, stop: async () => { kill('SIGTERM'); if (!await Promise.race([ended.then(() => true), pause(5000)])) kill('SIGKILL'); await ended; started.delete(job); } };
  started.add(job);
  return job;
}

async function announced(job, what) {
  for (let i = 0; i < 600; i++) {
    const url = /listening on (http\S+)/.exec(job.text())?.[1];
    if (url) return url;
    if (await Promise.race([job.ended.then(() => true), pause(50)])) break;
  }
  throw new Error(`${what} did not start: ${job.errors().slice(-300)}`);
}

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().on('error', reject).listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

/** Runs a client; resolves to its lines by case. */
async function use(client, target) {
  const began = performance.now();
  const job = start([...client.command, ...target]);
  const code = await Promise.race([job.ended, pause(LIMIT).then(() => 'it took too long')]);
  await job.stop();
  const lines = new Map(job.text().split('\n').filter(l => l.includes('\t')).map(l => l.split('\t')));
  const took = new Map(Array.from(job.text().matchAll(/^(\w+) took ([\d.]+) ms$/gm), ([, name, ms]) => [name, Number(ms)]));
  return { lines, took, seconds: (performance.now() - began) / 1000, problem: code === 0 ? '' : `exit ${code}: ${job.errors().trim().split('\n').slice(-3).join(' | ')}` };
}

const servers = Object.entries(SERVERS);
const clients = Object.entries(CLIENTS).filter(([name, c]) => clientRE.test(name) && !(options.short && c.long));
const direct = new Map(); // what a client gets at home, a promise for each

/** Starts what all clients share of a server: the server itself, and Dragoman in front of it. */
async function open(name, server) {
  if (!server.stdio) server.url = await announced(start(server.command), name);
  server.behind = server.stdio ? ['--', ...server.command] : [server.url];
  const port = await freePort();
  server.proxy = start([dragoman, 'serve', '--listen', `127.0.0.1:${port}`, '--admin', 'off', '--log-level', 'warn', ...server.behind]);
  server.base = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 200; i++) {
    if (await fetch(`${server.base}/mcp`, { method: 'DELETE' }).then(() => true, () => false)) return;
    await pause(50);
  }
  throw new Error(`dragoman in front of ${name} did not start: ${server.proxy.errors()}`);
}

const home = (name, client) => {
  if (client.as) return home(client.as, CLIENTS[client.as]);
  const server = SERVERS[client.home];
  if (!direct.has(name)) direct.set(name, use(client, server.stdio ? server.command : [server.url]));
  return direct.get(name);
};

function through(client, server) {
  if (client.over === 'stdio') return use(client, [dragoman, 'stdio', ...server.behind]);
  return use(client, [`${server.base}/${client.over === 'sse' ? 'sse' : 'mcp'}`]);
}

/** Compares one pair; resolves to a row of the table. */
async function pair(clientName, client, serverName, server) {
  const want = await home(clientName, client);
  const got = await through(client, server);
  const wrong = [];
  if (want.lines.size === 0 || want.problem) wrong.push(`at home: ${want.problem || 'nothing'}`);
  for (const [name, value] of want.lines) {
    const known = KNOWN.find(k => k.clients.test(clientName) && k.servers.test(serverName) && k.name === name);
    const same = got.lines.get(name) === value;
    if (known && same) wrong.push(`${name}: listed as known to differ`);
    if (!known && !same) wrong.push(`${name}: ${got.lines.get(name) ?? 'nothing'}, at home ${value}`);
  }
  for (const { name, most, why } of LIMITS.filter(l => l.clients.test(clientName) && l.servers.test(serverName))) {
    if (!(got.took.get(name) <= most)) wrong.push(`${name}: took ${got.took.get(name)} ms, ${most} at most: ${why}`);
  }
  if (got.problem) wrong.push(got.problem);
  const row = { client: clientName, server: serverName, wrong, seconds: got.seconds, home: want.seconds, cases: want.lines.size };
  console.log(`${wrong.length ? 'FAIL' : 'PASS'} ${clientName.padEnd(20)} ${serverName.padEnd(11)} ${row.cases} cases, ${got.seconds.toFixed(1)} s, at home ${want.seconds.toFixed(1)} s`);
  for (const line of wrong) console.log(`     ${line.slice(0, 400)}`);
  return row;
}

const ABOUT = `# Makers: results

Written by \`make makers\` on ${new Date().toISOString().slice(0, 10)}: what each client gets at each server through Dragoman, compared with a
server of its own transport, and the seconds that the whole run of the client takes, its own start included. Java SDK 2.1.0, rmcp 3.11.0,
openai-agents 0.24.0, strands-agents 1.62.0, pydantic-ai 2.68.0, @ai-sdk/mcp 2.0.99.

`;

function table(rows) {
  const names = servers.map(([name]) => name);
  const cell = row => (row ? `${row.wrong.length ? 'differs' : 'same'}, ${row.seconds.toFixed(1)} s` : '');
  return ['| client | at home | ' + names.join(' | ') + ' |', '|---|---' + '|---'.repeat(names.length) + '|',
    ...clients.map(([client]) => {
      const mine = rows.filter(r => r.client === client);
      return `| ${client} | ${mine[0]?.home.toFixed(1)} s | ${names.map(n => cell(mine.find(r => r.server === n))).join(' | ')} |`;
    })].join('\n');
}

async function main() {
  const began = performance.now();
  await Promise.all(servers.map(([name, server]) => open(name, server)));
  const todo = clients.flatMap(([c, client]) => servers.filter(([s]) => serverRE.test(s) && (!options.short || (client.brief?.includes(s) ?? true))).map(([s, server]) => () => pair(c, client, s, server)));
  const rows = [];
  await Promise.all(Array.from({ length: Number(options.jobs) }, async () => { for (let job = todo.shift(); job; job = todo.shift()) rows.push(await job()); }));
  if (options.table) writeFileSync(options.table, `${ABOUT}${table(rows)}\n`);
  const failed = rows.filter(r => r.wrong.length).length;
  if (failed) for (const [name, server] of servers) if (server.proxy.errors()) console.log(`dragoman in front of ${name}: ${server.proxy.errors().slice(-600)}`);
  console.log(`${Math.round((performance.now() - began) / 1000)} seconds`);
  console.log(`${rows.length - failed} passed, ${failed} failed`);
  return rows.length && !failed ? 0 : 1;
}

let leaving;
const leave = () => (leaving ??= Promise.all([...started].map(job => job.stop())).then(() => rmSync(scratch, { recursive: true, force: true })));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => leave().then(() => process.exit(1)));
let status = 1;
try {
  status = await main();
} catch (error) {
  console.error(error.message);
  console.log('0 passed, 1 failed');
}
await leave();
process.exit(status);
