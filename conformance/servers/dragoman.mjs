// Starts, queries and ends a `dragoman serve` and its clients.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { HERE } from './catalogue.mjs';
import { FINDER } from './finding.mjs';
import { Watch } from './processes.mjs';

export const IDLE = 2; // seconds of sessions.idle_ttl and idle_exit
const CLIENT_TIME = 300_000;

/** Waits for a true value of `f`, at most `ms`; resolves to it or to undefined. */
export async function until(f, ms) {
  for (const end = performance.now() + ms; ;) {
    const value = await f();
    if (value) return value;
    if (performance.now() > end) return undefined;
    await pause(50);
  }
}

/** Writes the configuration of Dragoman. Its times are short, so that a run is short; with an era there is no probe. Several servers are one. */
function configure(file, server, era, mark) {
  const upstream = one => ({
    command: one.command, cwd: one.cwd ?? one.dir, env: { ...one.env, ...mark }, probe_timeout: '30s', stop_grace: '1s', kill_grace: '1s',
    ...(one.era !== 'legacy' && { idle_exit: `${IDLE}s` }), // the process that all modern clients share belongs to no session
    ...(one.silent && { probe_timeout: '3s' }), ...(era && { era }),
  });
  const upstreams = server.members ? Object.fromEntries(server.members.map(one => [one.name, upstream(one)])) : { default: upstream(server) };
  const idle = server.members ? '60s' : `${IDLE}s`; // a merge of many slow servers takes longer to use
  writeFileSync(file, JSON.stringify({ sessions: { idle_ttl: idle }, catalogue: { path: 'memory' }, contexts: { finder: { clients: [FINDER], mode: 'search' } }, tool_timeout: 60, resource_timeout: 60, prompt_timeout: 60, drain_timeout: '1s', upstreams }));
}

const running = new Set();

/** Ends a Dragoman and the processes that it has left. */
export function end(dragoman) {
  running.delete(dragoman);
  dragoman.child.kill('SIGKILL');
  dragoman.watch.end();
}

/** Ends all Dragomans. */
export function endAll() { for (const dragoman of running) end(dragoman); }

let started = 0;

/** Starts Dragoman in front of a server, at a free port; resolves to { url, child, watch, said, ended }, which `end` ends. */
export async function serve(binary, server, label, era) {
  const config = path.join(server.dir, `${label}.json`);
  const log = path.join(server.dir, `${label}.log`);
  const mark = `${process.pid}.${server.name}.${label}.${started++}`;
  configure(config, server, era, { DRAGOMAN_TEST_MARK: mark });
  writeFileSync(log, '');
  const child = spawn(binary, ['serve', '--config', config, '--listen', '127.0.0.1:0', '--admin', 'off', '--log-format', 'json'],
    { stdio: ['ignore', 'ignore', 'pipe'], detached: true }); // a group of its own: what is sent to ours does not reach it
  child.stderr.pipe(createWriteStream(log));
  const ended = once(child, 'exit');
  const dragoman = { url: undefined, child, ended, watch: new Watch(child.pid, `DRAGOMAN_TEST_MARK=${mark}`), said: () => readFileSync(log, 'utf8') };
  running.add(dragoman);
  const listening = () => /"mcp":\[?"([^"]+)".*"message":"listening"/.exec(dragoman.said())?.[1];
  dragoman.url = await until(() => listening() ?? (child.exitCode !== null && 'ended'), 15_000);
  if (!dragoman.url || child.exitCode !== null) {
    end(dragoman);
    throw new Error(`dragoman serve did not open its port: ${dragoman.said().trim().split('\n').at(-1)}`);
  }
  return dragoman;
}

const python = clients => /^py/.test(clients);

const command = (clients, url, spec) => (python(clients)
  ? [path.join(HERE, '.venv', clients[2], 'bin/python'), path.join(HERE, 'use.py'), clients, url, spec]
  : [process.execPath, path.join(HERE, 'use.mjs'), clients, url, spec]);

function run(clients, url, spec, ...more) {
  const [program, ...args] = [...command(clients, url, spec), ...more];
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const out = { text: '', errors: '' };
  child.stdout.on('data', data => { out.text += data; });
  child.stderr.on('data', data => { out.errors = (out.errors + data).slice(-4000); });
  return { child, out };
}

const lastError = ({ errors }) => errors.split('\n').find(line => /^\S*Error/.test(line)) ?? errors.trim().split('\n').at(-1);

/** The processes of the clients: one for all JavaScript clients, one for each Python client. */
export const processesOf = clients => [clients.filter(c => !python(c)).join(','), ...clients.filter(python)].filter(Boolean);

/** Runs clients (names with commas) to their end; resolves to their lines, each [word, client, check, detail]. */
export async function use(clients, url, spec) {
  const { child, out } = run(clients, url, spec);
  const timer = setTimeout(() => child.kill('SIGKILL'), CLIENT_TIME);
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  const lines = out.text.split('\n').filter(line => /^(ok|FAIL)\t/.test(line)).map(line => line.split('\t'));
  if (code !== 0 && !lines.some(([word]) => word === 'FAIL')) lines.push(['FAIL', clients, 'client', `it ended with ${signal ?? code}: ${lastError(out)}`]);
  return lines;
}

/** Opens a session of each client and leaves it open; resolves to a function that ends them. */
export async function hold(clients, url, spec) {
  const { child, out } = run(clients, url, spec, '--hold');
  const held = await until(() => /^holding$/m.test(out.text) || child.exitCode !== null, 120_000);
  if (!held || child.exitCode !== null) {
    child.kill('SIGKILL');
    throw new Error(`${clients} could not open their sessions: ${lastError(out)}`);
  }
  return () => child.kill('SIGKILL');
}
