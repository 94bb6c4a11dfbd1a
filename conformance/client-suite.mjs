// Runs the official suite's client scenarios (all but authorization) with one client of ours, at one revision of the suite's
// mock servers, and compares every check with a stored baseline. client-suite.sh is the way to start it.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { broken, CLI, compare, HERE, readBaseline, REVISIONS, save, statuses } from './checks.mjs';

const TOGETHER = 3; // scenarios at once: most of the time is starting processes and waiting
const text = { type: 'string' };
const { values: options } = parseArgs({
  options: {
    client: text, revision: text, dragoman: text, era: text, save: text, only: { type: 'string', default: '.' },
    differs: { type: 'string', default: process.env.DIFFERS ?? path.join(HERE, 'differs.tsv') },
    verbose: { type: 'boolean', default: false },
  },
});

/** Runs the suite's command line; resolves to { status, printed }. */
function suite(args, env = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [CLI, ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    child.stdout.on('data', d => { printed += d; });
    child.stderr.on('data', d => { printed += d; });
    child.on('error', reject);
    child.on('close', status => resolve({ status, printed }));
  });
}

async function names(revision) {
  const { printed } = await suite(['list', '--client', '--spec-version', revision]);
  return [...printed.matchAll(/^ *- (\S+)/gm)].map(m => m[1]).filter(n => !n.startsWith('auth/') && new RegExp(options.only).test(n));
}

/** Runs one scenario in its own directory. An unexpected failure of the client is the failed check `client`. */
async function scenario(name, out) {
  const dir = path.join(out, name.replaceAll('/', '_'));
  mkdirSync(dir);
  const env = {
    SUITE_CLIENT: options.client, SUITE_DRAGOMAN: options.dragoman ?? '', SUITE_ERA: options.era ?? '',
    SUITE_SCRIPT: path.join(HERE, 'clients/suite-client.mjs'), SUITE_NODE: process.execPath,
  };
  const { printed } = await suite(['client', '--command', '"$SUITE_NODE" "$SUITE_SCRIPT"', '--scenario', name,
    '--spec-version', options.revision, '--timeout', '20000', '-o', dir], env);
  const result = readdirSync(dir).map(d => path.join(dir, d, 'checks.json')).find(existsSync);
  if (!result) return broken(printed.slice(-300));
  const found = statuses(JSON.parse(readFileSync(result, 'utf8')));
  const ended = /Client (?:timed out after|exited with code) .*/.exec(printed)?.[0];
  if (ended) {
    found.checks.client = 'FAILURE';
    found.messages.client = `${ended}: ${readFileSync(path.join(path.dirname(result), 'stderr.txt'), 'utf8').slice(-200)}`;
  }
  return Object.keys(found.checks).length > 0 ? found : broken('no check');
}

async function main() {
  if (!options.client || !REVISIONS.includes(options.revision)) throw new Error('want --client and --revision');
  const parent = process.env.SUITE_TMP ?? path.join(HERE, '.tmp');
  mkdirSync(parent, { recursive: true });
  const out = mkdtempSync(path.join(parent, 'client-'));
  try {
    const waiting = await names(options.revision);
    const scenarios = Object.fromEntries(waiting.map(n => [n, undefined]));
    const work = async () => { for (let n; (n = waiting.shift()) !== undefined;) scenarios[n] = await scenario(n, out); };
    await Promise.all(Array.from({ length: TOGETHER }, work));
    if (options.save) return save(options.save, options.revision, scenarios);
    // A client of another era should have the same results at the mock as a native one.
    const own = path.join(HERE, `baselines/client-${options.client.slice(0, 2)}.${options.revision}.json`);
    const baseline = readBaseline(existsSync(own) ? own : path.join(HERE, `baselines/client-v2.${options.revision}.json`));
    for (const n of Object.keys(baseline)) if (!new RegExp(options.only).test(n)) delete baseline[n];
    return compare({ ...options, cell: `client:${options.client}` }, baseline, scenarios);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

main().then(ok => process.exit(ok ? 0 : 1), error => {
  console.error(`client-suite: ${error.message}`);
  process.exit(2);
});
