#!/usr/bin/env node
// run.mjs [options] [SERVER_RE]      real stdio servers behind Dragoman, used by real clients of both eras; README.md says what is checked
//   --short       what `make test` runs: fewer servers, one client of each era
//   --table       only: how each server answers the probe, with and without Dragoman; writes servers.tsv
//   --merged      all servers behind one Dragoman, as one server
//   --clients L   which clients, with commas (v1-http, v1-sse, v2-modern, v2-legacy, v2-auto, py1, py2-modern, py2-legacy, py2-auto)
//   --jobs N      how many servers at once (default 3: most of the time is waiting)
//   --keep        keeps the logs of a run that passed
// DRAGOMAN is the binary (default: dragoman at the root of the repository). Needs ./setup.sh, ../setup.sh, and Linux (/proc).
// A line for each check; the last is `N passed, N failed`.
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { HERE, resolve, SERVERS } from './catalogue.mjs';
import { end, endAll, hold, IDLE, processesOf, serve, until, use } from './dragoman.mjs';
import { examineMerged } from './merged.mjs';
import { writeTable } from './table.mjs';

const CLIENTS = ['v1-http', 'v1-sse', 'v2-modern', 'v2-legacy', 'v2-auto', 'py1', 'py2-modern', 'py2-legacy'];
const SHORT_CLIENTS = ['v1-http', 'v2-modern'];
const GONE = 2000; // ms that anything may live on after Dragoman's end
const ENDING = 12_000; // ms from the idle time to the last process's end: sweeps and graces, on a busy machine

function die(text) {
  console.error(`servers/run.mjs: ${text}`);
  process.exit(2);
}

const onPath = name => process.env.PATH.split(':').map(dir => path.join(dir, name)).find(file => { try { accessSync(file, constants.X_OK); return true; } catch { return false; } });

function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { short: { type: 'boolean' }, table: { type: 'boolean' }, merged: { type: 'boolean' }, keep: { type: 'boolean' }, clients: { type: 'string' }, jobs: { type: 'string', default: '3' } },
    });
    return { ...values, pick: new RegExp(positionals[0] ?? '.'), clients: values.clients?.split(',') ?? (values.short ? SHORT_CLIENTS : CLIENTS) };
  } catch (error) {
    return die(error.message);
  }
}

/** Starts a web site for servers that fetch pages: /slow never answers. */
function website() {
  const server = createServer((request, response) => {
    if (request.url === '/slow') return;
    response.setHeader('content-type', 'text/html');
    response.end(`<html><head><title>a page</title></head><body><p>This is the page for ${request.url.split('?')[1] ?? 'nobody'}, and it has something to say.</p></body></html>`);
  }).listen(0, '127.0.0.1');
  server.unref();
  return new Promise(done => { server.on('listening', () => done(`http://127.0.0.1:${server.address().port}`)); });
}

/** Checks that all processes of abandoned sessions end within the idle time, while Dragoman runs. */
async function abandoned(dragoman, say) {
  const { watch } = dragoman;
  const begun = performance.now();
  const gone = await until(() => watch.servers().length === 0, IDLE * 1000 + ENDING);
  const took = `${((performance.now() - begun) / 1000).toFixed(1)} s after the last client, ${watch.peak} processes at most`;
  say('dragoman', 'abandoned', gone ? undefined : `still there: ${watch.names(watch.servers())}`, took);
  await until(() => watch.zombies().length === 0, 500); // what is being reaped at this moment is no leak
  const zombies = watch.zombies();
  say('dragoman', 'zombies', zombies.length ? `not reaped: ${watch.names(zombies)}` : undefined);
}

/** Checks that no process survives when Dragoman is ended while sessions are open and calls run. */
async function ended(dragoman, spec, signal, say) {
  const { child, watch, url } = dragoman;
  const name = `${signal} with open sessions`;
  let leave = () => {};
  try {
    leave = await hold('v1-http,v2-modern', url, spec);
    const before = watch.servers().length;
    if (before === 0) throw new Error('no process of the server was found');
    const begun = performance.now();
    child.kill(signal);
    const [code] = await Promise.race([dragoman.ended, pause(30_000, ['it did not end within 30 s'], { ref: false })]);
    const exit = performance.now();
    if (signal === 'SIGTERM' && code !== 0) throw new Error(`Dragoman's exit status: ${code}`);
    const gone = await until(() => watch.alive().length === 0, GONE);
    const detail = `${before} processes; Dragoman after ${Math.round(exit - begun)} ms, the last ${gone ? Math.round(performance.now() - exit) : '?'} ms later`;
    say('dragoman', name, gone ? undefined : `alive ${GONE} ms after Dragoman: ${watch.names(watch.alive())}`, detail);
  } catch (error) {
    say('dragoman', name, error.message);
  }
  leave();
}

function judgeVerdict(dragoman, server, say) {
  const found = [...dragoman.said().matchAll(/upstream speaks (.*?), revision ([\d-]+)/g)].at(-1);
  const right = { legacy: /^legacy/, both: /^modern/, modern: /^modern$/ }[server.era];
  say('dragoman', 'verdict', found && right.test(found[1]) ? undefined : `found ${found?.[1] ?? 'nothing'}, want ${server.era}`, found && `${found[1]}, revision ${found[2]}`);
}

/** Runs all checks of a server. `say(client, check, wrong, detail)` gets the results. */
async function examine(binary, server, clients, say) {
  const spec = path.join(server.dir, 'spec.json');
  writeFileSync(spec, JSON.stringify(server));
  let dragoman = await serve(binary, server, 'first');
  try {
    for (const process of processesOf(clients)) {
      for (const [word, client, check, detail] of await use(process, dragoman.url, spec)) say(client, check, word === 'ok' ? undefined : detail, detail);
    }
    judgeVerdict(dragoman, server, say);
    await abandoned(dragoman, say);
    await ended(dragoman, spec, 'SIGTERM', say);
  } finally {
    end(dragoman);
  }
  dragoman = await serve(binary, server, 'second', server.era === 'legacy' ? 'legacy' : 'modern');
  try {
    await ended(dragoman, spec, 'SIGKILL', say);
  } finally {
    end(dragoman);
  }
}

/** Runs the checks of `f`, which gets `say`, under a name; resolves to the output and the number of failures. */
async function run(name, f) {
  const lines = [];
  const count = { passed: 0, failed: 0 };
  const say = (client, check, wrong, detail) => {
    count[wrong === undefined ? 'passed' : 'failed']++;
    lines.push(`${wrong === undefined ? 'ok  ' : 'FAIL'} ${name.padEnd(12)} ${client.padEnd(11)} ${check.padEnd(26)} ${wrong ?? detail ?? ''}`.trimEnd());
  };
  const begun = performance.now();
  try {
    await f(say);
  } catch (error) {
    say('dragoman', 'run', error.message);
  }
  lines.push(`     ${name}: ${Math.round((performance.now() - begun) / 1000)} s`);
  return { lines, ...count };
}

/** Runs one server. */
const one = (binary, server, clients, at) => run(server.name, say => examine(binary, { ...resolve(server, at), dir: at.dir }, clients, say));

async function main() {
  const options = readOptions();
  if (process.platform !== 'linux') die('needs Linux: it looks for processes in /proc');
  const binary = path.resolve(process.env.DRAGOMAN ?? path.join(HERE, '../../dragoman'));
  if (!existsSync(binary)) die(`${binary} is not there: build it, or set DRAGOMAN`);
  if (!existsSync(path.join(HERE, '.bin/.ready'))) die(`run ${path.join(HERE, 'setup.sh')} first`);
  const scratch = path.join(HERE, '../.tmp');
  mkdirSync(scratch, { recursive: true });
  const runDir = mkdtempSync(path.join(scratch, 'servers.'));
  const web = await website();
  const queue = [];
  for (const server of SERVERS.filter(s => (options.short ? s.short : true) && options.pick.test(s.name))) {
    if (server.needs && !onPath(server.needs)) console.log(`n/a  ${server.name.padEnd(12)} needs ${server.needs}`);
    else queue.push([server, { dir: path.join(runDir, server.name), web, chromium: onPath('chromium') }]);
  }
  if (queue.length === 0) die(`no server matches ${options.pick}`);
  if (options.table) {
    await writeTable(binary, queue, path.join(HERE, 'servers.tsv'));
    rmSync(runDir, { recursive: true, force: true });
    return;
  }
  const total = { passed: 0, failed: 0 };
  const all = options.merged ? queue.splice(0) : [];
  const tasks = all.length ? [() => run('merged', say => examineMerged(binary, all, options.clients, path.join(runDir, 'merged'), say))]
    : queue.map(([server, at]) => () => one(binary, server, options.clients, at));
  const worker = async () => {
    for (let next; (next = tasks.shift());) {
      const { lines, passed, failed } = await next();
      console.log(lines.join('\n'));
      total.passed += passed;
      total.failed += failed;
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: Number(options.jobs) }, worker));
  if (total.failed || options.keep) console.log(`logs: ${runDir}`);
  else rmSync(runDir, { recursive: true, force: true });
  console.log(`${Math.round((performance.now() - begun) / 1000)} seconds`);
  console.log(`${total.passed} passed, ${total.failed} failed`);
  process.exitCode = total.failed ? 1 : 0;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    endAll();
    process.exit(1);
  });
}
await main();
