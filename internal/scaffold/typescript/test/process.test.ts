// The command as a process: stdio, signals and exit codes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { create } from '../src/main.js';
import { BEARER, TOKEN, configured, freePort, post, request } from './helpers.js';

const COMMAND = ['dist/src/main.js'];
const WEB = { MCP_TRANSPORT_TYPE: 'HTTP', MCP_BEARER_TOKEN: TOKEN };
const limit = { timeout: 60_000 };

/** The server as a process, which is killed if it still runs at the end. */
async function started(
  changes: Record<string, string>,
  use: (
    child: ChildProcessWithoutNullStreams,
    logged: (text: string) => Promise<string>,
  ) => Promise<void>,
): Promise<void> {
  const env = { ...process.env, ...changes };
  const child = spawn(process.execPath, COMMAND, { env, timeout: 50_000, killSignal: 'SIGKILL' });
  let log = '';
  let from = 0;
  child.stderr.setEncoding('utf8').on('data', (part: string) => (log += part));
  const logged = async (text: string) => {
    let at: number;
    while ((at = log.indexOf(text, from)) < 0) {
      assert.equal(child.stderr.readableEnded, false, log);
      await Promise.race([once(child.stderr, 'data'), once(child.stderr, 'end')]);
    }
    const seen = log.slice(from, at + text.length);
    from = at + text.length;
    return seen;
  };
  try {
    await use(child, logged);
  } finally {
    child.kill('SIGKILL');
  }
}

async function exit(child: ChildProcessWithoutNullStreams): Promise<number | null> {
  if (child.exitCode === null) await once(child, 'exit');
  return child.exitCode;
}

test('stdio serves both eras', limit, async () => {
  for (const mode of ['auto', 'legacy'] as const) {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: COMMAND,
      stderr: 'ignore',
    });
    const options = { versionNegotiation: { mode } };
    const client = new Client({ name: 'test', version: '1' }, options);
    await client.connect(transport);
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['fetch_url'],
    );
    const { contents } = await client.readResource({ uri: 'resource://about' });
    assert.match(JSON.stringify(contents), /0\.1\.0/);
    const { prompts } = await client.listPrompts();
    assert.deepEqual(
      prompts.map(({ name }) => name),
      ['code_review'],
    );
    await client.close();
  }
});

test('stdio answers all before it ends, and has messages only on stdout', limit, async () => {
  await started({ MCP_RATE_LIMIT_BURST: '1' }, async (child) => {
    const hello = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    };
    const reads = Array.from({ length: 20 }, (_, n) => ({
      ...request('resources/read', { uri: 'file:///.%2F' }),
      id: n + 2,
    }));
    const messages = [
      request('initialize', hello),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      ...reads,
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 21 } },
    ];
    child.stdin.end(
      messages.map((message) => `${JSON.stringify(message)}\n`).join('') + 'not json\n',
    );
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => (output += part));
    assert.equal(await exit(child), 0);
    const answers = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: number; jsonrpc: string; result?: unknown });
    assert.ok(answers.every(({ jsonrpc }) => jsonrpc === '2.0'));
    const results = new Map(answers.map(({ id, result }) => [id, result])); // no rate over stdio
    for (let id = 1; id <= 20; id++) assert.ok(results.get(id), `no result of ${id}`);
  });
});

test('stdio ends at SIGTERM', limit, async () => {
  for (const name of ['SIGTERM', 'SIGHUP'] as const) {
    await started({}, async (child, logged) => {
      await logged('server is ready');
      child.kill(name);
      await logged('server is stopped');
      assert.equal(await exit(child), 0, name);
    });
  }
});

test('a file is named by --config or MCP_CONFIG_FILE', limit, async () => {
  await started({ MCP_CONFIG_FILE: 'no-such.toml' }, async (child, logged) => {
    await logged('no-such.toml: ');
    assert.equal(await exit(child), 2);
  });
});

test('the log has what log_level asks for', (t) => {
  for (const [log_level, want] of [
    ['INFO', ['INFO    a', 'WARNING b', 'ERROR   c']],
    ['WARNING', ['WARNING b', 'ERROR   c']],
    ['CRITICAL', []],
  ] as const) {
    const lines: string[] = [];
    const written = t.mock.method(process.stderr, 'write', (line: string) => {
      lines.push(line.trimEnd());
      return true;
    });
    const { log } = create(configured({ log_level }));
    log('a');
    log('b', 'WARNING');
    log('c', 'ERROR');
    written.mock.restore();
    assert.deepEqual(lines, want);
  }
});

test('HTTP restarts at SIGHUP and ends at SIGTERM', limit, async () => {
  const port = await freePort();
  await started({ ...WEB, MCP_HTTP_PORT: String(port) }, async (child, logged) => {
    for (let i = 0; i < 2; i++) {
      await logged('listening at');
      // A connection that is kept may end just when the next request takes it.
      const headers = { ...BEARER, Connection: 'close' };
      const got = await post(`http://127.0.0.1:${port}`, request('tools/list'), headers);
      assert.equal(got.status, 200);
      child.kill('SIGHUP');
    }
    let log = await logged('listening at');
    const states = [...log.matchAll(/server is (\w+)/g)].map((found) => found[1]);
    assert.deepEqual(states, ['shutting_down', 'stopped', 'ready']);
    child.kill('SIGTERM');
    log += await logged('server is stopped');
    assert.ok(!log.includes(TOKEN));
    assert.equal(await exit(child), 0);
  });
});

test('production logs JSON', limit, async () => {
  await started({ MCP_PROFILE: 'production' }, async (_, logged) => {
    const line = (await logged('}\n')).trim();
    assert.deepEqual((JSON.parse(line) as { level: string }).level, 'INFO');
  });
});

test('a wrong configuration ends with 2', limit, async () => {
  await started({ MCP_TRANSPORT_TYPE: 'HTTP', MCP_LOG_LEVEL: 'loud' }, async (child, logged) => {
    await logged('log_level: "loud" is wrong; fix: ');
    assert.equal(await exit(child), 2);
  });
});

test('an address in use ends with 2', limit, async () => {
  const port = String(await freePort());
  await started({ ...WEB, MCP_HTTP_PORT: port }, async (_first, listens) => {
    await listens('listening at');
    await started({ ...WEB, MCP_HTTP_PORT: port }, async (second, logged) => {
      await logged('fix: choose another address');
      assert.equal(await exit(second), 2);
    });
  });
});
