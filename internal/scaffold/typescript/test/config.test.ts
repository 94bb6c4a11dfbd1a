// The rules of the configuration.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { ConfigurationError, FILE_BYTES, SECRETS, load } from '../src/config.js';

const REQUIRED = { server_name: 'a-1', server_version: '1.2.3', transport_type: 'STDIO' };
const HTTP = { ...REQUIRED, transport_type: 'HTTP', http_host: '::1', http_port: 1024 };
const SECRET = { MCP_API_KEY: '0123456789abcdef' };
const folder = mkdtempSync(path.join(tmpdir(), 'config-'));
after(() => {
  rmSync(folder, { recursive: true });
});

function file(name: string, text: string): string {
  const where = path.join(folder, name);
  writeFileSync(where, text);
  return where;
}

function loaded(values: Record<string, unknown>, environ: Record<string, string> = {}) {
  return load(environ, file('config.json', JSON.stringify(values)));
}

function failure(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ConfigurationError);
    return error.message;
  }
  return assert.fail('no error');
}

test('defaults', () => {
  assert.deepEqual(loaded({ ...REQUIRED, profile: 'production' }), {
    ...REQUIRED,
    profile: 'production',
    log_level: 'INFO',
    tool_timeout: 30,
    resource_timeout: 10,
    prompt_timeout: 5,
    max_response_size_mb: 100,
    rate_limit_per_minute: 100,
    rate_limit_burst: 20,
    cors_origins: [],
    allowed_hosts: [],
    file_root: 'files',
  });
});

test('environment over file over defaults', () => {
  const values = { ...REQUIRED, tool_timeout: 7, log_level: 'ERROR' };
  assert.equal(loaded(values).tool_timeout, 7);
  const environ = {
    MCP_TOOL_TIMEOUT: '8',
    MCP_CORS_ORIGINS: 'https://a.example, https://b.example',
  };
  const got = loaded(values, environ);
  assert.deepEqual([got.tool_timeout, got.log_level], [8, 'ERROR']);
  assert.deepEqual(got.cors_origins, ['https://a.example', 'https://b.example']);
});

test('each key is a variable too', () => {
  const environ: Record<string, string> = {
    MCP_SERVER_NAME: 'b-2',
    MCP_SERVER_VERSION: '4.5.6',
    MCP_PROFILE: 'production',
    MCP_LOG_LEVEL: 'CRITICAL',
    MCP_TRANSPORT_TYPE: 'HTTP',
    MCP_HTTP_HOST: '127.0.0.2',
    MCP_HTTP_PORT: '8001',
    MCP_TOOL_TIMEOUT: '1',
    MCP_RESOURCE_TIMEOUT: '2',
    MCP_PROMPT_TIMEOUT: '300',
    MCP_MAX_RESPONSE_SIZE_MB: '4',
    MCP_RATE_LIMIT_PER_MINUTE: '5',
    MCP_RATE_LIMIT_BURST: '6',
    MCP_BEARER_TOKEN: '0123456789abcdef',
    MCP_API_KEY: 'fedcba9876543210',
    MCP_CORS_ORIGINS: 'https://a.example',
    MCP_ALLOWED_HOSTS: 'b.example',
    MCP_FILE_ROOT: 'other',
  };
  const got = Object.entries(loaded({}, environ));
  assert.equal(got.length, Object.keys(environ).length);
  for (const [key, value] of got)
    assert.equal(String(value), environ[`MCP_${key.toUpperCase()}`], key);
});

test('development logs more', () => {
  const { profile, log_level } = loaded(REQUIRED);
  assert.deepEqual([profile, log_level], ['development', 'DEBUG']);
  assert.equal(loaded({ ...REQUIRED, profile: 'development' }).log_level, 'DEBUG');
  assert.equal(loaded({ ...REQUIRED, profile: 'production' }).log_level, 'INFO');
  assert.equal(loaded(REQUIRED, { MCP_LOG_LEVEL: 'ERROR' }).log_level, 'ERROR');
});

const WRONG: [string, unknown][] = [
  ['server_name', 'Has-Capitals'],
  ['server_name', 'a'.repeat(65)],
  ['server_name', 'line\n'],
  ['server_name', ''],
  ['server_version', '1.2'],
  ['server_version', 'v1.2.3'],
  ['server_version', '1.2.\u0663'],
  ['log_level', 'debug'],
  ['transport_type', 'http'],
  ['profile', 'Production'],
  ['http_port', 1023],
  ['http_port', 65536],
  ['http_port', '8000'],
  ['http_host', ''],
  ['tool_timeout', 0],
  ['tool_timeout', 301],
  ['tool_timeout', 1.5],
  ['tool_timeout', true],
  ['resource_timeout', -1],
  ['resource_timeout', 301],
  ['prompt_timeout', 0],
  ['prompt_timeout', 301],
  ['max_response_size_mb', 0],
  ['rate_limit_per_minute', 0],
  ['rate_limit_burst', -5],
  ['cors_origins', 'https://a.example'],
  ['allowed_hosts', [1]],
  ['file_root', ''],
  ['colour', 'blue'],
];

test('each key has its rule, and errors name key, value and fix', () => {
  for (const port of [1024, 65535]) {
    assert.equal(loaded({ ...HTTP, http_port: port }, SECRET).http_port, port);
  }
  for (const [key, value] of WRONG) {
    const line = failure(() => loaded({ ...HTTP, [key]: value }, SECRET));
    assert.match(line, new RegExp(`^${key}: .*; fix: .`), `${key} ${String(value)}`);
    if (key !== 'colour') assert.ok(line.includes(JSON.stringify(value).slice(0, 100)), line);
  }
});

test('name, version and transport are required', () => {
  for (const key of Object.keys(REQUIRED)) {
    const values = Object.fromEntries(Object.entries(REQUIRED).filter(([name]) => name !== key));
    assert.match(
      failure(() => loaded(values)),
      new RegExp(`^${key}: missing; fix: write`),
    );
  }
});

test('HTTP needs host, port and a credential', () => {
  for (const key of ['http_host', 'http_port']) {
    const values = Object.fromEntries(Object.entries(HTTP).filter(([name]) => name !== key));
    assert.match(
      failure(() => loaded(values, SECRET)),
      new RegExp(`^${key}: missing; fix: write`),
    );
  }
  assert.match(
    failure(() => loaded(HTTP)),
    /not served without authentication; fix: set/,
  );
  assert.equal(loaded(HTTP, SECRET).api_key, SECRET.MCP_API_KEY);
});

test('credentials are never in a file, and never shown', () => {
  for (const key of SECRETS) {
    const variable = `MCP_${key.toUpperCase()}`;
    const inFile = failure(() => loaded({ ...HTTP, [key]: '0123456789abcdef' }));
    assert.equal(inFile, `${key}: in a file; fix: set ${variable}`);
    const line = failure(() => loaded(HTTP, { [variable]: 'too-short' }));
    assert.match(line, /<hidden> is wrong; fix: /);
    assert.ok(!line.includes('too-short'));
  }
});

test('the environment is judged as the file is', () => {
  for (const text of ['', '8e3', '80 80', '9'.repeat(30)]) {
    const line = failure(() => loaded(HTTP, { ...SECRET, MCP_HTTP_PORT: text }));
    assert.match(line, /^http_port: .* is wrong; fix: /);
  }
});

test('broken and large files', () => {
  for (const [name, text] of [
    ['c.toml', 'a ='],
    ['c.json', '{'],
    ['c.json', '[]'],
    ['c.toml', '#'.repeat(FILE_BYTES + 1)],
  ] as const) {
    assert.match(
      failure(() => load({}, file(name, text))),
      /; fix: write TOML, or JSON/,
    );
  }
});

test('TOML or JSON is found', () => {
  const before = process.cwd();
  const empty = mkdtempSync(path.join(folder, 'empty-'));
  process.chdir(empty);
  try {
    assert.match(
      failure(() => load({})),
      /server_name: missing/,
    );
    const lines = Object.entries(REQUIRED).map(([key, value]) => `${key} = "${value}"`);
    writeFileSync('config.toml', lines.join('\n'));
    assert.equal(load({}).server_name, 'a-1');
    writeFileSync('config.json', JSON.stringify(REQUIRED));
    assert.match(
      failure(() => load({})),
      /both there; fix: remove one/,
    );
    rmSync('config.toml');
    assert.equal(load({}).server_name, 'a-1');
  } finally {
    process.chdir(before);
  }
});

test('the file of this project is valid', () => {
  assert.equal(load({}).profile, 'development');
});
