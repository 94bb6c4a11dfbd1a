// Reads and compares the reports of the official suite, for suite.mjs (server scenarios) and client-suite.mjs.
// Scenarios are a map: scenario → { checks: id → status, messages: id → text }.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const HERE = path.dirname(fileURLToPath(import.meta.url));
export const CLI = path.join(HERE, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
export const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'];
const WORST_FIRST = ['FAILURE', 'WARNING', 'SKIPPED', 'SUCCESS'];

/** Returns the worst status of each check, which may be reported several times. INFO lines are no results and are left out. */
export function statuses(checks) {
  const found = {};
  const messages = {};
  for (const { id, status, errorMessage } of checks) {
    if (status === 'INFO') continue;
    if (found[id] && WORST_FIRST.indexOf(found[id]) <= WORST_FIRST.indexOf(status)) continue;
    found[id] = status;
    messages[id] = errorMessage;
  }
  return { checks: found, messages };
}

/** Returns the failed check `ran` for a scenario without a result, so that a scenario cannot pass without running. */
export const broken = why => ({ checks: { ran: 'FAILURE' }, messages: { ran: why } });

/** Reads the lines of differs.tsv: { line, what, scenario, check, revisions, cells, reason }. Throws if a line is malformed. */
function readDiffers(file) {
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

/** Returns the lines for a cell at a revision; none without a cell. */
const linesFor = ({ differs, cell, revision }) =>
  (cell === undefined ? [] : readDiffers(differs).filter(e => e.revisions.includes(revision) && e.cells.test(cell)));

const lineFor = (lines, scenario, check) => lines.find(e => e.scenario === scenario && (e.check === undefined || e.check === check));

/** Scenarios that judge how fast an answer comes, which a busy machine may miss; all others are judged by their first run. */
const TIMED = {
  'server-stateless': 'gives the first event of a stream 600 ms',
  'input-required-result-multiple-input-requests': 'wants three questions in one answer: Dragoman sends those together that come within questions.settle, 8 ms',
};

/** Returns why a scenario with a difference that nothing excuses may run again, by scenario. */
export function repeatable(options, baseline, scenarios) {
  const lines = linesFor(options);
  const found = baseline ? differences(baseline, scenarios) : failures(Object.keys(scenarios), scenarios);
  return Object.fromEntries(found.filter(d => TIMED[d.scenario] && !lineFor(lines, d.scenario, d.check)).map(d => [d.scenario, TIMED[d.scenario]]));
}

/** Checks that every line of differs.tsv names at least one of the given cells. */
export function checkDiffers(file, cells) {
  const idle = readDiffers(file).filter(e => !cells.some(c => e.cells.test(c)));
  for (const e of idle) console.log(`STALE ${path.basename(file)}:${e.line} ${e.what}: names no cell there is`);
  return idle.length === 0;
}

/** Returns all differences between a baseline and a run: { scenario, check, was, is, message }. */
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

/** Returns the checks of the named scenarios that failed or warned: { scenario, check, status, message }. */
const failures = (names, scenarios) => names.flatMap(scenario => {
  const { checks, messages } = scenarios[scenario] ?? broken('it did not run');
  return Object.entries(checks).filter(([, status]) => status === 'FAILURE' || status === 'WARNING')
    .map(([check, status]) => ({ scenario, check, status, message: messages[check] }));
});

export const oneLine = text => (text ? `  ${String(text).replace(/\s+/g, ' ').slice(0, 220)}` : '');

/** Compares a run with a baseline, check by check. Prints the differences; returns true if all were expected. */
export function compare(options, baseline, scenarios) {
  const lines = linesFor(options);
  const bad = new Set();
  let excused = 0;
  for (const d of differences(baseline, scenarios)) {
    const entry = lineFor(lines, d.scenario, d.check);
    if (entry) { entry.used = true; excused++; } else bad.add(d.scenario);
    console.log(`${entry ? 'KNOWN' : 'DIFF '} ${d.scenario}:${d.check}  baseline ${d.was}, now ${d.is}${oneLine(d.message)}`);
  }
  const stale = lines.filter(e => !e.used);
  for (const e of stale) console.log(`STALE ${path.basename(options.differs)}:${e.line} ${e.what}: equals the baseline in cell ${options.cell} at ${options.revision}; remove or narrow the line`);
  const all = new Set([...Object.keys(baseline), ...Object.keys(scenarios)]);
  if (options.verbose) for (const s of all) console.log(`${bad.has(s) ? 'FAIL' : 'PASS'} ${s}`);
  const verdict = bad.size ? `${bad.size} scenarios differ` : 'equal';
  console.log(`${verdict}, ${excused} checks excused by differs.tsv, ${stale.length} stale lines`);
  console.log(`${all.size - bad.size} passed, ${bad.size + stale.length} failed`);
  return bad.size + stale.length === 0;
}

/**
 * Judges a requirement set: in every one of the `required` scenarios no check may fail or warn, but for what differs.tsv excuses.
 * Whether its lines are stale is found where the whole suite is compared; in cells with a `+`, where it is not, here.
 */
export function complete(options, required, scenarios) {
  const lines = linesFor(options);
  const bad = new Set();
  let excused = 0;
  for (const { scenario, check, status, message } of failures(required, scenarios)) {
    const entry = lineFor(lines, scenario, check);
    if (entry) { entry.used = true; excused++; } else bad.add(scenario);
    console.log(`${entry ? 'KNOWN' : 'FAIL '} ${scenario}:${check}  ${status}${oneLine(message)}`);
  }
  if (options.verbose) for (const scenario of required) console.log(`${bad.has(scenario) ? 'FAIL' : 'PASS'} ${scenario}`);
  const stale = lines.filter(e => !e.used && options.cell.includes('+'));
  for (const e of stale) console.log(`STALE ${path.basename(options.differs)}:${e.line} ${e.what}: passes in cell ${options.cell}; remove or narrow the line`);
  console.log(`${required.length} scenarios required, ${excused} checks excused by differs.tsv, ${stale.length} stale lines`);
  console.log(`${required.length - bad.size} passed, ${bad.size + stale.length} failed`);
  return bad.size + stale.length === 0 && required.length > 0;
}

/** Records a run as a baseline. Returns true if nothing failed in it. */
export function save(file, revision, scenarios) {
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

export const readBaseline = file => JSON.parse(readFileSync(file, 'utf8')).scenarios;
