// The servers. Members of each:
//   name, make (SDK or language), launcher (the program that Dragoman starts), version
//   command     a function of the places (below) that returns the command line; also `env`, `cwd`, and `before`, which prepares places.dir
//   era         the era that Dragoman must find: legacy, modern or `both`
//   tools, resources, prompts    items that the lists must have; without them the list is not checked
//   calls       calls and their results: { tool | uri | prompt, args, expect (a regular expression), error, once }; ${WHO} stands for the
//               name of the session; only one session makes a call with `once`
//   silent      the server does not answer the probe, so Dragoman's timeout for it is short
//   inTurn      calls of different sessions disturb each other, so the sessions take turns
//   slow        a long call, which is cancelled, and in flight when Dragoman ends; hold: a long call only for the latter
//   note        a remark
//   short       part of the short form; needs: the program without which the server is left out
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const HERE = path.dirname(fileURLToPath(import.meta.url));
const NPM = path.join(HERE, 'npm');
const bin = name => path.join(NPM, 'node_modules/.bin', name);
const venv = (sdk, name) => path.join(HERE, '.venv', String(sdk), 'bin', name);
const own = name => path.join(HERE, 'own', name);
const npmVersion = name => JSON.parse(readFileSync(path.join(NPM, 'package.json'), 'utf8')).dependencies[name];
const pinned = (sdk, name) => readFileSync(path.join(HERE, `python/requirements-${sdk}.txt`), 'utf8').match(new RegExp(`^${name}==(\\S+)`, 'm'))[1];
const goVersion = module => readFileSync(path.join(HERE, 'go/go.mod'), 'utf8').match(new RegExp(`${module} (v\\S+)`))[1];

const TIME = {
  make: `Python SDK ${pinned(2, 'mcp')}`, era: 'both', tools: ['get_current_time', 'convert_time'],
  calls: [
    { tool: 'get_current_time', args: { timezone: 'Asia/Tokyo' }, expect: 'Asia/Tokyo.*\\+09:00' },
    { tool: 'convert_time', args: { source_timezone: 'Asia/Tokyo', time: '12:00', target_timezone: 'Asia/Kolkata' }, expect: '-3.5h' },
  ],
};
const FAST = {
  env: () => ({ PYTHONDONTWRITEBYTECODE: '1' }), // its file lies in the repository
  tools: ['echo', 'count'], resources: ['note://one'], prompts: ['ask'],
  calls: [{ tool: 'echo', args: { text: '${WHO}' }, expect: '${WHO}' }, { uri: 'note://one', expect: 'a note' }, { prompt: 'ask', args: { topic: '${WHO}' }, expect: 'about ${WHO}' }],
  slow: { tool: 'count', args: { n: 30 } },
};

export const SERVERS = [
  {
    name: 'everything', make: 'TypeScript SDK v1', launcher: 'node', version: npmVersion('@modelcontextprotocol/server-everything'), era: 'legacy',
    command: () => [process.execPath, path.join(NPM, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'), 'stdio'],
    tools: ['echo', 'get-sum'], resources: [], prompts: ['simple-prompt'],
    calls: [{ tool: 'echo', args: { message: '${WHO}' }, expect: 'Echo: ${WHO}' }, { tool: 'get-sum', args: { a: 2, b: 40 }, expect: '42' }, { prompt: 'simple-prompt', args: {}, expect: 'prompt' }],
    slow: { tool: 'trigger-long-running-operation', args: { duration: 30, steps: 30 } },
  },
  {
    name: 'filesystem', make: 'TypeScript SDK v1', launcher: 'a link to a script', version: npmVersion('@modelcontextprotocol/server-filesystem'), era: 'legacy',
    before: at => writeFileSync(path.join(at.dir, 'hello.txt'), 'hello there\n'),
    command: at => [bin('mcp-server-filesystem'), at.dir],
    tools: ['read_text_file', 'list_directory', 'write_file'],
    calls: at => [
      { tool: 'read_text_file', args: { path: path.join(at.dir, 'hello.txt') }, expect: 'hello there' },
      { tool: 'write_file', args: { path: path.join(at.dir, '${WHO}.txt'), content: '${WHO}' }, expect: '${WHO}.txt' },
      { tool: 'read_text_file', args: { path: '/etc/passwd' }, expect: 'Access denied', error: true },
    ],
    note: 'asks for roots where the client has them',
  },
  {
    name: 'memory', make: 'TypeScript SDK v1', launcher: 'npx -y → sh → node', version: npmVersion('@modelcontextprotocol/server-memory'), era: 'legacy', short: true,
    cwd: NPM, env: at => ({ MEMORY_FILE_PATH: path.join(at.dir, 'memory.jsonl') }),
    command: () => ['npx', '-y', '--offline', `@modelcontextprotocol/server-memory@${npmVersion('@modelcontextprotocol/server-memory')}`],
    tools: ['create_entities', 'read_graph'],
    calls: [
      { tool: 'create_entities', args: { entities: [{ name: 'ada', entityType: 'person', observations: ['counts'] }] }, expect: '^', once: true },
      { tool: 'search_nodes', args: { query: 'ada' }, expect: 'counts' }, { tool: 'read_graph', args: {}, expect: 'ada' },
    ],
  },
  {
    name: 'thinking', make: 'TypeScript SDK v1', launcher: 'a link to a script', version: npmVersion('@modelcontextprotocol/server-sequential-thinking'), era: 'legacy',
    command: () => [bin('mcp-server-sequential-thinking')],
    tools: ['sequentialthinking'],
    calls: [{ tool: 'sequentialthinking', args: { thought: '${WHO} thinks', thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false }, expect: 'thoughtHistoryLength' }],
    note: 'draws each thought on stderr, in colours',
  },
  {
    name: 'commands', make: 'TypeScript SDK 1.9.0', launcher: 'a link to a script', version: npmVersion('mcp-server-commands'), era: 'legacy', short: true,
    command: () => [bin('mcp-server-commands')],
    tools: ['run_command'], prompts: ['run_command'],
    calls: [
      { tool: 'run_command', args: { command: 'echo ${WHO} $((6 * 7))' }, expect: '${WHO} 42' },
      { tool: 'run_command', args: { command: 'setsid sleep 300 >/dev/null 2>&1 & echo left behind' }, expect: 'left behind', once: true },
    ],
    slow: { tool: 'run_command', args: { command: 'sleep 300' } },
    note: 'runs shells; one of them leaves a process in a session of its own; a cancelled command goes on',
  },
  {
    name: 'code-runner', make: 'TypeScript SDK v1', launcher: 'a link to a script', version: npmVersion('mcp-server-code-runner'), era: 'legacy',
    env: at => ({ TMPDIR: at.dir }),
    command: () => [bin('mcp-server-code-runner')],
    tools: ['run-code'], inTurn: true,
    calls: [{ tool: 'run-code', args: { languageId: 'python', code: 'print("${WHO}", 6 * 7)' }, expect: '${WHO} 42' }, { tool: 'run-code', args: { languageId: 'shellscript', code: 'echo $((6 * 7))' }, expect: '42' }],
    slow: { tool: 'run-code', args: { languageId: 'shellscript', code: 'sleep 300' } },
    note: 'its banner and its log go to stdout; starts interpreters; writes every snippet into one and the same file, so calls at once mix up',
  },
  { ...TIME, name: 'time', launcher: 'console script', version: pinned(2, 'mcp-server-time'), short: true, command: () => [venv(2, 'mcp-server-time')] },
  {
    ...TIME, name: 'time-uvx', launcher: 'uvx → python', version: pinned(2, 'mcp-server-time'),
    env: () => ({ UV_CACHE_DIR: path.join(HERE, '.venv/uvx-cache') }),
    command: () => [venv('uv', 'uvx'), '--offline', '--no-config', '--python', 'python3', '--with-requirements', path.join(HERE, 'python/requirements-2.txt'),
      '--from', readFileSync(path.join(HERE, 'python/uvx.txt'), 'utf8').trim(), 'mcp-server-time'],
  },
  {
    name: 'git', make: `Python SDK ${pinned(2, 'mcp')}`, launcher: 'python -m', version: pinned(2, 'mcp-server-git'), era: 'both', needs: 'git',
    before: at => {
      const git = (...args) => execFileSync('git', ['-C', at.dir, '-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { stdio: 'ignore' });
      git('init', '-q');
      writeFileSync(path.join(at.dir, 'file.txt'), 'one\n');
      git('add', 'file.txt');
      git('commit', '-qm', 'the first commit');
    },
    command: at => [venv(2, 'python'), '-m', 'mcp_server_git', '--repository', at.dir],
    tools: ['git_status', 'git_log'],
    calls: at => [{ tool: 'git_log', args: { repo_path: at.dir }, expect: 'the first commit' }, { tool: 'git_status', args: { repo_path: at.dir }, expect: 'branch' },
      { tool: 'git_show', args: { repo_path: at.dir, revision: 'HEAD' }, expect: 'file.txt' }],
    note: 'starts git',
  },
  {
    name: 'fetch', make: `Python SDK ${pinned(2, 'mcp')}`, launcher: 'console script', version: pinned(2, 'mcp-server-fetch'), era: 'both',
    command: () => [venv(2, 'mcp-server-fetch'), '--ignore-robots-txt', '--allow-private-ips'],
    tools: ['fetch'], prompts: ['fetch'],
    calls: at => [{ tool: 'fetch', args: { url: `${at.web}/page?\${WHO}`, raw: true }, expect: 'page for ${WHO}' }],
    slow: at => ({ tool: 'fetch', args: { url: `${at.web}/slow`, raw: true } }),
    note: 'asked for anything but raw pages it starts npm and node, and takes seconds for each',
  },
  {
    name: 'sqlite', make: `Python SDK ${pinned(1, 'mcp')}`, launcher: 'console script', version: pinned(1, 'mcp-server-sqlite'), era: 'legacy', short: true,
    command: at => [venv(1, 'mcp-server-sqlite'), '--db-path', path.join(at.dir, 'test.db')],
    tools: ['read_query'], resources: ['memo://insights'], prompts: ['mcp-demo'],
    calls: [{ tool: 'read_query', args: { query: "SELECT '${WHO}' AS who" }, expect: '${WHO}' }, { uri: 'memo://insights', expect: 'insights' },
      { prompt: 'mcp-demo', args: { topic: 'ducks' }, expect: 'ducks' }],
    hold: { tool: 'read_query', args: { query: 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000000) SELECT count(*) FROM c' } },
    note: 'a long query keeps it from reading its stdin; about 90 lines on stderr for a method it does not know',
  },
  { ...FAST, name: 'fastmcp-4', make: `FastMCP ${pinned(2, 'fastmcp')}`, launcher: 'fastmcp run', version: '-', era: 'both', command: () => [venv(2, 'fastmcp'), 'run', own('fast.py')] },
  { ...FAST, name: 'fastmcp-2', make: `FastMCP ${pinned(1, 'fastmcp')}`, launcher: 'fastmcp run', version: '-', era: 'legacy', command: () => [venv(1, 'fastmcp'), 'run', own('fast.py')], note: 'its banner goes to stderr' },
  {
    name: 'mark3labs', make: 'mcp-go', launcher: 'binary', version: goVersion('mark3labs/mcp-go'), era: 'both', short: true,
    command: () => [path.join(HERE, '.bin/mark3labs')],
    tools: ['echo', 'add'], resources: ['test://static/resource'], prompts: ['simple_prompt'],
    calls: [{ tool: 'echo', args: { message: '${WHO}' }, expect: '${WHO}' }, { tool: 'add', args: { a: 2, b: 40 }, expect: '42' }],
    slow: { tool: 'longRunningOperation', args: { duration: 30, steps: 30 } },
    note: 'writes every message to stderr; its long operation panics without _meta, and is recovered',
  },
  {
    name: 'go-sdk', make: 'Go SDK', launcher: 'binary', version: goVersion('modelcontextprotocol/go-sdk'), era: 'both', short: true,
    command: () => [path.join(HERE, '.bin/gosdk')],
    tools: ['greet'], resources: ['embedded:info'], prompts: ['greet'],
    calls: [{ tool: 'greet', args: { name: '${WHO}' }, expect: 'Hi ${WHO}' }, { uri: 'embedded:info', expect: 'text' }, { prompt: 'greet', args: { name: '${WHO}' }, expect: '${WHO}' }],
  },
  {
    name: 'mute', make: 'no SDK (sh)', launcher: 'script', version: '-', era: 'legacy', short: true,
    command: () => [own('mute.sh')],
    silent: true, tools: ['say'], calls: [{ tool: 'say', args: { text: '${WHO}' }, expect: 'you said ${WHO}' }],
    note: 'CR LF; says nothing to a method that it does not know; each answer costs two processes',
  },
  {
    name: 'brittle', make: 'no SDK (Python)', launcher: 'script', version: '-', era: 'legacy', short: true,
    command: () => [own('brittle.py')],
    tools: ['upper'], calls: [{ tool: 'upper', args: { text: 'q${WHO}q' }, expect: 'Q[A-Z]+[0-9]+Q' }],
    note: 'slow start; banner on stdout; notification before initialize; CR LF; U+2028; exits at an unknown method',
  },
  {
    name: 'stubborn', make: 'no SDK (Python)', launcher: 'script', version: '-', era: 'legacy', short: true,
    command: () => [own('stubborn.py')],
    tools: ['echo'], calls: [{ tool: 'echo', args: { text: '${WHO}' }, expect: '${WHO}' }],
    note: 'ignores the end of stdin and SIGTERM, and so do a helper in its own session and a daemon; errors have id null',
  },
  {
    name: 'playwright', make: 'TypeScript SDK v1', launcher: 'a link to a script', version: npmVersion('@playwright/mcp'), era: 'legacy', needs: 'chromium',
    command: at => [bin('playwright-mcp'), '--headless', '--isolated', '--no-sandbox', '--browser', 'chromium', '--executable-path', at.chromium, '--output-dir', at.dir],
    tools: ['browser_navigate'], inTurn: true, // a page goes to one place at a time
    calls: at => [{ tool: 'browser_navigate', args: { url: `${at.web}/page?\${WHO}` }, expect: 'Page URL: .*page\\?${WHO}.*Page Title: a page' }],
    slow: at => ({ tool: 'browser_navigate', args: { url: `${at.web}/slow` } }),
    note: 'starts a browser, which is a dozen processes',
  },
];

/** Returns a server with its functions of the places resolved: its own directory, and the URL of a web site. */
export function resolve(server, at) {
  mkdirSync(at.dir, { recursive: true });
  server.before?.(at);
  return Object.fromEntries(Object.entries(server).filter(([key]) => key !== 'before').map(([key, value]) => [key, typeof value === 'function' ? value(at) : value]));
}
