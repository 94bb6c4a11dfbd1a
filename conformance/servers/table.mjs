// Finds how each server answers the probe of the eras: sent directly to its stdin, as a client would, and by `dragoman probe`.
import { execFile, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { resolve } from './catalogue.mjs';
import { Watch } from './processes.mjs';

const ANSWER = 12_000; // ms to wait for an answer
const LEAVE = 6000; // ms to wait for the end after the end of stdin
const DISCOVER = {
  jsonrpc: '2.0', id: 1, method: 'server/discover',
  params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'table', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} } },
};

const parsed = line => { try { return JSON.parse(line); } catch { return undefined; } };

/** Sends a request to a new process, closes its stdin, and waits for its end. */
async function ask(server, request) {
  const [program, ...args] = server.command;
  const begun = performance.now();
  const since = () => Math.round(performance.now() - begun);
  const mark = `table.${process.pid}`;
  const child = spawn(program, args, { cwd: server.cwd ?? server.dir, env: { ...process.env, ...server.env, DRAGOMAN_TEST_MARK: mark }, stdio: 'pipe', detached: true });
  const watch = new Watch(child.pid, `DRAGOMAN_TEST_MARK=${mark}`);
  const seen = { noise: 0, early: 0, errors: 0, answer: undefined, ms: undefined, exit: undefined };
  child.stdin.on('error', () => {});
  child.on('exit', (code, signal) => { seen.exit = { how: signal ?? code, at: since() }; });
  createInterface({ input: child.stderr }).on('line', () => { seen.errors++; });
  createInterface({ input: child.stdout }).on('line', line => {
    const message = parsed(line);
    if (!message) seen.noise++;
    else if (message.method) seen.early += seen.answer ? 0 : 1;
    else [seen.answer, seen.ms] = [message, since()];
  });
  const wait = async (ms, f) => { for (const end = performance.now() + ms; !f() && performance.now() < end;) await pause(5); };
  child.stdin.write(`${JSON.stringify(request)}\n`);
  await wait(ANSWER, () => seen.answer || seen.exit);
  const open = seen.exit === undefined;
  const closed = since();
  child.stdin.end();
  await wait(LEAVE, () => seen.exit);
  seen.left = !open ? '-' : seen.exit ? `${seen.exit.at - closed} ms` : 'stays';
  child.kill('SIGKILL');
  watch.end();
  return seen;
}

function told({ answer, exit, left }) {
  if (!answer) return left === '-' ? `exits with ${exit.how}` : 'silence';
  if (answer.error) return `error ${answer.error.code}${answer.id === null ? ', id null' : ''}`;
  return `${answer.result.supportedVersions?.at(0) ?? 'a result'}`;
}

/** Returns the result of `dragoman probe` and its duration, with the start of the processes. */
async function probe(binary, server) {
  const begun = performance.now();
  const env = Object.entries(server.env ?? {}).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  try {
    const { stdout } = await promisify(execFile)(binary, ['probe', '--json', '--cwd', server.cwd ?? server.dir, ...env, '--', ...server.command], { timeout: 60_000 });
    const found = JSON.parse(stdout);
    return [`${found.eras} ${found.version}`, Math.round(performance.now() - begun)];
  } catch (error) {
    return [String(error.stderr || error.message).trim().split('\n').at(-1), Math.round(performance.now() - begun)];
  }
}

/** Probes one server after the other, so that the times are those of an idle machine. */
export async function writeTable(binary, queue, file) {
  const rows = [['server', 'version', 'make', 'launcher', 'server/discover', 'after', 'noise on stdout', 'notifications before', 'lines on stderr', 'gone after EOF', 'verdict', 'after', 'note']];
  for (const [server, at] of queue) {
    const ready = { ...resolve(server, at), dir: at.dir };
    const seen = await ask(ready, DISCOVER);
    const [verdict, took] = await probe(binary, ready);
    rows.push([server.name, server.version, server.make, server.launcher, told(seen), seen.ms || seen.left === '-' ? `${seen.ms ?? seen.exit.at} ms` : '-', seen.noise, seen.early, seen.errors, seen.left, verdict, `${took} ms`, server.note ?? '']);
    console.log(rows.at(-1).join('\t'));
  }
  writeFileSync(file, `${rows.map(row => row.join('\t')).join('\n')}\n`);
}
