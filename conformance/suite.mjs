// Runs the official suite's server scenarios at one URL and one revision, and compares every check with a stored baseline.
// suite.sh is the way to start it; the options are described there.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const CLI = path.join(HERE, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'];
const WORST_FIRST = ['FAILURE', 'WARNING', 'SKIPPED', 'SUCCESS'];

function readOptions() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      cell: { type: 'string' }, baseline: { type: 'string' }, save: { type: 'string' }, keep: { type: 'string' },
      later: { type: 'string', default: process.env.LATER ?? path.join(HERE, 'later.tsv') },
      'check-later': { type: 'string' }, verbose: { type: 'boolean', default: false },
    },
  });
  return { ...values, url: positionals[0], revision: positionals[1] };
}

/** Starts the suite; resolves to what it printed. Its raw results go to `out`, one directory a scenario. */
function runSuite(url, revision, out) {
  const args = [CLI, 'server', '--url', url, '--suite', 'all', '--spec-version', revision, '-o', out];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: out, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    child.stdout.on('data', d => { printed += d; });
    child.stderr.on('data', d => { printed += d; });
    child.on('error', reject);
    child.on('close', () => resolve(printed));
  });
}

/** The worst status of each check: a check may be reported several times. INFO lines judge nothing and are left out. */
function statuses(checks) {
  const found = {};
  const messages = {};
  for (const { id, status, errorMessage } of checks) {
    if (status === 'INFO') continue;
    if (found[id] && WORST_FIRST.indexOf(found[id]) <= WORST_FIRST.indexOf(status)) continue;
    found[id] = status;
    messages[id] = errorMessage;
  }
  return { found, messages };
}

/**
 * What the suite found: scenario → { checks: id → status, messages: id → text }.
 * A scenario without a single result gets the check `ran`, so that nothing passes by not having run.
 */
function collect(out, printed) {
  const scenarios = {};
  for (const [, name] of printed.matchAll(/^=== Running scenario: (.+?) ===/gm)) scenarios[name] = undefined;
  for (const dir of readdirSync(out)) {
    const name = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(dir)?.[1];
    const file = path.join(out, dir, 'checks.json');
    if (!name || !existsSync(file)) continue;
    const { found, messages } = statuses(JSON.parse(readFileSync(file, 'utf8')));
    scenarios[name] = { checks: found, messages };
  }
  for (const name of Object.keys(scenarios)) {
    if (scenarios[name] && Object.keys(scenarios[name].checks).length > 0) continue;
    const why = printed.split('\n').find(l => l.startsWith(`Failed to run scenario ${name}:`)) ?? 'no result';
    scenarios[name] = { checks: { ran: 'FAILURE' }, messages: { ran: why } };
  }
  return scenarios;
}

/** The lines of later.tsv: { line, scenario, check, revisions, cells, reason }. Throws where a line cannot be read. */
function readLater(file) {
  if (!existsSync(file)) throw new Error(`${file}: not there`);
  const entries = [];
  readFileSync(file, 'utf8').split('\n').forEach((text, i) => {
    if (text === '' || text.startsWith('#')) return;
    const [what, revisions, cells, reason, ...rest] = text.split('\t');
    if (!reason || rest.length) throw new Error(`${file}:${i + 1}: want four columns: scenario, revision, cells, reason`);
    const [scenario, check] = what.split(':');
    const unknown = revisions.split(',').find(r => !REVISIONS.includes(r));
    if (unknown) throw new Error(`${file}:${i + 1}: unknown revision ${unknown}`);
    entries.push({ line: i + 1, what, scenario, check, revisions: revisions.split(','), cells: new RegExp(`^(${cells})$`), reason, used: false });
  });
  return entries;
}

/** All differences between a baseline and a run: { scenario, check, was, is, message }. */
function differences(baseline, scenarios) {
  const list = [];
  for (const scenario of new Set([...Object.keys(baseline), ...Object.keys(scenarios)])) {
    const was = baseline[scenario] ?? {};
    const is = scenarios[scenario]?.checks ?? {};
    for (const check of new Set([...Object.keys(was), ...Object.keys(is)])) {
      if (was[check] === is[check]) continue;
      list.push({ scenario, check, was: was[check] ?? 'absent', is: is[check] ?? 'absent', message: scenarios[scenario]?.messages[check] });
    }
  }
  return list;
}

const oneLine = text => (text ? `  ${text.replace(/\s+/g, ' ').slice(0, 220)}` : '');

/** Prints the comparison and returns true when nothing unexpected was found. */
function compare(options, baseline, scenarios) {
  const later = options.cell === undefined ? []
    : readLater(options.later).filter(e => e.revisions.includes(options.revision) && e.cells.test(options.cell));
  const bad = new Set();
  let excused = 0;
  for (const d of differences(baseline, scenarios)) {
    const entry = later.find(e => e.scenario === d.scenario && (e.check === undefined || e.check === d.check));
    if (entry) { entry.used = true; excused++; } else bad.add(d.scenario);
    console.log(`${entry ? 'LATER' : 'DIFF '} ${d.scenario}:${d.check}  baseline ${d.was}, now ${d.is}${oneLine(d.message)}`);
  }
  const stale = later.filter(e => !e.used);
  for (const e of stale) console.log(`STALE ${path.basename(options.later)}:${e.line} ${e.what}: equals the baseline in cell ${options.cell} at ${options.revision}; remove or narrow the line`);
  const all = new Set([...Object.keys(baseline), ...Object.keys(scenarios)]);
  if (options.verbose) for (const s of all) console.log(`${bad.has(s) ? 'FAIL' : 'PASS'} ${s}`);
  const verdict = bad.size ? `${bad.size} scenarios differ` : 'equal';
  console.log(`${verdict}, ${excused} checks excused by later.tsv, ${stale.length} stale lines`);
  console.log(`${all.size - bad.size} passed, ${bad.size + stale.length} failed`);
  return bad.size + stale.length === 0;
}

function save(file, revision, scenarios) {
  const checks = Object.fromEntries(Object.keys(scenarios).sort().map(s => [s, scenarios[s].checks]));
  const version = JSON.parse(readFileSync(path.join(path.dirname(CLI), '../package.json'), 'utf8')).version;
  mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
  writeFileSync(file, `${JSON.stringify({ suite: version, revision, scenarios: checks }, null, 1)}\n`);
  const failed = Object.entries(scenarios).filter(([, s]) => Object.values(s.checks).includes('FAILURE'));
  for (const [name, s] of failed) console.log(`FAIL ${name}${oneLine(Object.values(s.messages).find(Boolean))}`);
  const total = Object.values(checks).reduce((n, c) => n + Object.keys(c).length, 0);
  console.log(`saved ${Object.keys(checks).length} scenarios, ${total} checks`);
  console.log(`${Object.keys(checks).length - failed.length} passed, ${failed.length} failed`);
  return failed.length === 0;
}

/** Every line of later.tsv must name at least one of the given cells. */
function checkLater(file, cells) {
  const idle = readLater(file).filter(e => !cells.some(c => e.cells.test(c)));
  for (const e of idle) console.log(`STALE ${path.basename(file)}:${e.line} ${e.what}: names no cell there is`);
  return idle.length === 0;
}

async function main() {
  const options = readOptions();
  if (options['check-later'] !== undefined) return checkLater(options.later, options['check-later'].split(' '));
  if (!options.url || !REVISIONS.includes(options.revision)) {
    console.error(`usage: suite.sh URL ${REVISIONS.join('|')} [--cell NAME] [--save FILE] [--baseline FILE] [--later FILE] [--keep DIR] [--verbose]`);
    process.exit(2);
  }
  const out = path.resolve(options.keep ?? process.env.SUITE_TMP ?? path.join(HERE, '.tmp'));
  mkdirSync(out, { recursive: true });
  const results = mkdtempSync(path.join(out, 'suite-'));
  try {
    const printed = await runSuite(options.url, options.revision, results);
    const scenarios = collect(results, printed);
    if (Object.keys(scenarios).length === 0) {
      console.log(`the suite ran nothing:\n${printed.slice(-1500)}\n0 passed, 1 failed`);
      return false;
    }
    if (options.save) return save(options.save, options.revision, scenarios);
    const file = options.baseline ?? path.join(HERE, `baselines/dual.${options.revision}.json`);
    return compare(options, JSON.parse(readFileSync(file, 'utf8')).scenarios, scenarios);
  } finally {
    if (!options.keep) rmSync(results, { recursive: true, force: true });
  }
}

main().then(ok => process.exit(ok ? 0 : 1), error => {
  console.error(`suite: ${error.message}`);
  process.exit(2);
});
