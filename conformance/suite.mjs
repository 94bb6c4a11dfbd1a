// Runs the official suite's server scenarios at one URL and one revision, and compares every check with a stored baseline,
// or judges one of its requirement sets. suite.sh is the way to start it; the options are described there.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { broken, checkDiffers, CLI, compare, complete, HERE, readBaseline, repeatable, REVISIONS, save, statuses } from './checks.mjs';

function readOptions() {
  const text = { type: 'string' };
  const flag = { type: 'boolean', default: false };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      cell: text, baseline: text, save: text, keep: text, 'check-differs': text, requirements: flag, verbose: flag,
      differs: { type: 'string', default: process.env.DIFFERS ?? path.join(HERE, 'differs.tsv') },
    },
  });
  return { ...values, url: positionals[0], revision: positionals[1] };
}

/** Runs the suite, or one scenario of it; resolves to its output. Its raw results go to `out`, a directory for each scenario. */
function runSuite({ url, revision, requirements }, out, scenario) {
  const which = scenario ? ['--scenario', scenario, '--spec-version', revision] : requirements ? ['--requirements', revision] : ['--suite', 'all', '--spec-version', revision];
  const args = [CLI, 'server', '--url', url, ...which, '-o', out];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: out, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    child.stdout.on('data', d => { printed += d; });
    child.stderr.on('data', d => { printed += d; });
    child.on('error', reject);
    child.on('close', () => resolve(printed));
  });
}

/** Reads the results of the suite. */
function collect(out, printed) {
  const scenarios = {};
  for (const [, name] of printed.matchAll(/^=== Running scenario: (.+?) ===/gm)) scenarios[name] = undefined;
  for (const dir of readdirSync(out)) {
    const name = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(dir)?.[1];
    const file = path.join(out, dir, 'checks.json');
    if (!name || !existsSync(file)) continue;
    const checks = JSON.parse(readFileSync(file, 'utf8'));
    if (checks.length > 0) scenarios[name] = statuses(checks); // empty where there were only INFO lines: it ran, and judged nothing
  }
  for (const name of Object.keys(scenarios)) {
    if (scenarios[name]) continue;
    scenarios[name] = broken(printed.split('\n').find(l => l.startsWith(`Failed to run scenario ${name}:`)) ?? 'no result');
  }
  return scenarios;
}

/** Returns the scenarios that count: with a requirement set the suite runs others too, and names them at the end. */
function required(scenarios, printed) {
  const [, unscored = ''] = printed.split(/^Not scored for /m);
  const spare = new Set([...unscored.matchAll(/^ +[✓✗] (\S+) \(/gm)].map(m => m[1]));
  return Object.keys(scenarios).filter(s => !spare.has(s));
}

const TRIES = 3;

/** Runs scenarios again that missed a limit of time, until they pass or have had their tries. */
async function repeat(options, baseline, results, scenarios) {
  for (let n = 2; n <= TRIES; n++) {
    for (const [name, why] of Object.entries(repeatable(options, baseline, scenarios))) {
      console.log(`AGAIN ${name}, try ${n} of ${TRIES}: the suite ${why}`);
      const out = mkdtempSync(path.join(results, 'again-'));
      Object.assign(scenarios, { [name]: broken('no result') }, collect(out, await runSuite(options, out, name)));
    }
  }
}

async function main() {
  const options = readOptions();
  if (options['check-differs'] !== undefined) return checkDiffers(options.differs, options['check-differs'].split(' '));
  if (!options.url || !REVISIONS.includes(options.revision)) {
    console.error(`usage: suite.sh URL ${REVISIONS.join('|')} [--requirements] [--cell NAME] [--save FILE] [--baseline FILE] [--differs FILE] [--keep DIR] [--verbose]`);
    process.exit(2);
  }
  const out = path.resolve(options.keep ?? process.env.SUITE_TMP ?? path.join(HERE, '.tmp'));
  mkdirSync(out, { recursive: true });
  const results = mkdtempSync(path.join(out, 'suite-'));
  try {
    const printed = await runSuite(options, results);
    const scenarios = collect(results, printed);
    if (Object.keys(scenarios).length === 0) {
      console.log(`the suite ran nothing:\n${printed.slice(-1500)}\n0 passed, 1 failed`);
      return false;
    }
    if (options.save && !options.requirements) return save(options.save, options.revision, scenarios);
    const baseline = options.requirements ? undefined : readBaseline(options.baseline ?? path.join(HERE, `baselines/dual.${options.revision}.json`));
    await repeat(options, baseline, results, scenarios);
    if (options.requirements) return complete(options, required(scenarios, printed), scenarios);
    return compare(options, baseline, scenarios);
  } finally {
    if (!options.keep) rmSync(results, { recursive: true, force: true });
  }
}

main().then(ok => process.exit(ok ? 0 : 1), error => {
  console.error(`suite: ${error.message}`);
  process.exit(2);
});
