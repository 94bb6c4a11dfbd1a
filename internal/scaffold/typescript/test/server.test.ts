// The rules of the server, at the SDK's own client, without a transport.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProtocolError } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';
import { CapabilityError, TransientError } from '../src/capabilities.js';
import type { Log } from '../src/config.js';
import { Guard } from '../src/guard.js';
import { Lifecycle, LifecycleError, NEXT } from '../src/lifecycle.js';
import type { ServerState } from '../src/lifecycle.js';
import { Gate } from '../src/limits.js';
import { Server, TIMEOUT, TOO_LARGE, ToolError, UNAVAILABLE } from '../src/server.js';
import { Event, configured, connected, newServer, said, waiting } from './helpers.js';
import type { Answer } from './helpers.js';

const ORDER: ServerState[] = ['initializing', 'ready', 'shutting_down', 'stopped'];
const nothing = z.object({});

/** Wait for an error of JSON-RPC with a code and a text. */
async function fails(code: number, work: Promise<unknown>, text = /./): Promise<void> {
  await assert.rejects(
    work,
    (error) => error instanceof ProtocolError && error.code === code && text.test(error.message),
  );
}

test('lifecycle and its observers', () => {
  const lifecycle = new Lifecycle();
  const seen: string[] = [];
  lifecycle.observe((state) => seen.push(state));
  const path: ServerState[] = ['ready', 'shutting_down', 'stopped', 'ready', 'shutting_down'];
  for (const state of path) lifecycle.to(state);
  assert.deepEqual(seen, path);
});

test('no state is skipped', () => {
  for (const state of ORDER) {
    for (const next of ORDER) {
      const lifecycle = new Lifecycle();
      lifecycle.state = state;
      const follows = ORDER[ORDER.indexOf(state) + 1] ?? 'ready';
      assert.equal(NEXT[state], follows);
      if (next === follows) lifecycle.to(next);
      else
        assert.throws(() => {
          lifecycle.to(next);
        }, LifecycleError);
      assert.equal(lifecycle.state, next === follows ? next : state);
    }
  }
});

test('there is a capability before the start', () => {
  assert.throws(() => {
    new Server(configured()).start();
  }, /no capability; fix: /);
});

test('names are unique over all kinds', () => {
  const common = { name: 'same', description: 'd' };
  const claims = [
    (server: Server) => {
      server.tool({ ...common, inputSchema: nothing, handler: () => Promise.resolve('') });
    },
    (server: Server) => {
      server.resource({
        ...common,
        uriPattern: 'x://y',
        mimeType: 'text/plain',
        isStatic: true,
        fetch: () => Promise.resolve(''),
      });
    },
    (server: Server) => {
      server.prompt({ ...common, parameters: {}, template: [{ role: 'user', text: 'x' }] });
    },
  ];
  for (const first of claims) {
    for (const second of claims) {
      const server = new Server(configured());
      first(server);
      assert.throws(() => {
        second(server);
      }, CapabilityError);
    }
  }
});

test('arguments are valid against the schema', async () => {
  await connected(newServer(), async (client) => {
    assert.equal(said(await client.callTool({ name: 'echo', arguments: { number: 5 } })), '5');
    for (const wrong of [{ number: '5' }, { number: 1.5 }, {}, { number: null }]) {
      const result = await client.callTool({ name: 'echo', arguments: wrong });
      assert.equal(result.isError, true);
      assert.match(said(result), /^invalid arguments of echo: number: /);
    }
  });
});

test('unknown names are invalid parameters', async () => {
  await connected(newServer(), async (client) => {
    await fails(-32602, client.callTool({ name: 'none', arguments: {} }));
  });
  const server = newServer();
  server.prompt({
    name: 'p',
    description: 'd',
    parameters: {},
    template: [{ role: 'user', text: 'x' }],
  });
  server.resource({
    name: 'r',
    description: 'd',
    uriPattern: 'x://y',
    mimeType: 'text/plain',
    isStatic: true,
    fetch: () => Promise.resolve(''),
  });
  await connected(server, async (client) => {
    await fails(-32602, client.getPrompt({ name: 'none' }));
    await fails(-32602, client.readResource({ uri: 'x://none' }));
  });
});

test('failures of tools are results, and keep secrets', async () => {
  const logged: string[] = [];
  const log: Log = (text, level) => logged.push(`${level ?? 'INFO'} ${text}`);
  const server = new Server(configured(), undefined, undefined, log);
  const broken = () => Promise.reject(new Error('a secret of the server'));
  const common = { description: 'Fail.' };
  server.tool({ ...common, name: 'fail', inputSchema: nothing, handler: broken });
  server.tool({
    ...common,
    name: 'tell',
    inputSchema: nothing,
    handler: () => Promise.reject(new ToolError('it rains')),
  });
  server.resource({
    ...common,
    name: 'broken',
    uriPattern: 'x://{id}',
    mimeType: 'text/plain',
    isStatic: false,
    fetch: broken,
  });
  await connected(server, async (client) => {
    const result = await client.callTool({ name: 'fail', arguments: {} });
    assert.equal(result.isError, true);
    assert.equal(said(result), 'the tool fail has failed');
    const told = await client.callTool({ name: 'tell', arguments: {} });
    assert.deepEqual([told.isError, said(told)], [true, 'it rains']);
    await fails(-32603, client.readResource({ uri: 'x://1' }), /the resource broken has failed/);
  });
  assert.deepEqual(
    logged.map((line) => line.split('\n')[0]),
    [
      'ERROR tool fail: Error: a secret of the server',
      'INFO tool tell: it rains',
      'ERROR resource broken: Error: a secret of the server',
    ],
  );
});

test('timeouts', async () => {
  const server = newServer();
  const never = (signal: AbortSignal) =>
    new Promise<string>((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error);
      });
    });
  const common = { description: 'Wait.', timeout: 1 };
  server.tool({
    ...common,
    name: 'tool_waits',
    inputSchema: nothing,
    handler: (_, signal) => never(signal),
  });
  server.resource({
    ...common,
    name: 'resource_waits',
    uriPattern: 'x://{id}',
    mimeType: 'text/plain',
    isStatic: false,
    fetch: (_, signal) => never(signal),
  });
  await connected(server, async (client) => {
    await Promise.all([
      fails(TIMEOUT, client.callTool({ name: 'tool_waits', arguments: {} }), /longer than 1 s/),
      fails(TIMEOUT, client.readResource({ uri: 'x://1' }), /resource_waits took longer/),
    ]);
  });
});

test('what does not wait is judged once it has ended', async (t) => {
  const server = newServer({ prompt_timeout: 1 });
  let late = 0;
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + late);
  server.tool({
    name: 'busy',
    description: 'Take 1.5 s.',
    inputSchema: nothing,
    timeout: 1,
    handler: () => {
      late += 1500;
      return Promise.resolve('done');
    },
  });
  const message = {
    role: 'user' as const,
    get text() {
      late += 1500;
      return 'filled';
    },
  };
  server.prompt({ name: 'slow', description: 'd', parameters: {}, template: [message] });
  await connected(server, async (client) => {
    await fails(TIMEOUT, client.callTool({ name: 'busy', arguments: {} }));
    await fails(TIMEOUT, client.getPrompt({ name: 'slow' }), /prompt slow took longer than 1 s/);
  });
});

test('transient failures are tried again', async () => {
  const server = newServer();
  let attempts = 0;
  const retry = { attempts: 3, delaySeconds: 0 };
  const common = { description: 'Fail.', inputSchema: nothing, retry };
  server.tool({
    ...common,
    name: 'third',
    handler: () =>
      ++attempts < 3 ? Promise.reject(new TransientError('not yet')) : Promise.resolve('done'),
  });
  server.tool({
    ...common,
    name: 'never',
    handler: () => {
      attempts++;
      return Promise.reject(new TransientError('still not'));
    },
  });
  await connected(server, async (client) => {
    assert.equal(said(await client.callTool({ name: 'third', arguments: {} })), 'done');
    assert.equal(attempts, 3);
    const result = await client.callTool({ name: 'never', arguments: {} });
    assert.deepEqual([attempts, result.isError, said(result)], [6, true, 'still not']);
  });
});

test('the time between attempts doubles', async () => {
  const server = newServer();
  server.tool({
    name: 'never',
    description: 'Fail.',
    inputSchema: nothing,
    retry: { attempts: 4, delaySeconds: 0.1 },
    handler: () => Promise.reject(new TransientError('still not')),
  });
  await connected(server, async (client) => {
    const began = performance.now();
    await client.callTool({ name: 'never', arguments: {} });
    assert.ok(performance.now() - began > 690); // 100, 200 and 400 ms
  });
});

test('what tools and resources return', async () => {
  const server = newServer();
  const content = [
    { type: 'text' as const, text: 'a dot' },
    { type: 'image' as const, data: 'AAAA', mimeType: 'image/png' },
  ];
  server.tool({
    name: 'draw',
    description: 'Draw.',
    inputSchema: nothing,
    handler: () => Promise.resolve(content),
  });
  server.resource({
    name: 'bytes',
    description: 'd',
    uriPattern: 'x://bytes',
    mimeType: 'image/png',
    isStatic: true,
    fetch: () => Promise.resolve(Uint8Array.of(255, 0)),
  });
  await connected(server, async (client) => {
    assert.deepEqual((await client.callTool({ name: 'draw', arguments: {} })).content, content);
    const { contents } = await client.readResource({ uri: 'x://bytes' });
    assert.deepEqual(contents, [{ uri: 'x://bytes', mimeType: 'image/png', blob: '/wA=' }]);
  });
});

test('tools run one at a time, unless thread-safe', async () => {
  for (const threadSafe of [false, true]) {
    const server = newServer();
    let running = 0;
    let most = 0;
    for (const name of ['first', 'second']) {
      server.tool({
        name,
        description: 'Overlap.',
        inputSchema: nothing,
        threadSafe,
        handler: async () => {
          most = Math.max(most, ++running);
          for (let i = 0; i < 20; i++) await new Promise(setImmediate);
          running--;
          return '';
        },
      });
    }
    await connected(server, async (client) => {
      const names = Array.from({ length: 10 }, (_, i) => (i % 2 ? 'first' : 'second'));
      await Promise.all(names.map((name) => client.callTool({ name, arguments: {} })));
    });
    assert.equal(most > 1, threadSafe);
  }
});

test('static resources are kept, dynamic ones computed', async () => {
  const server = newServer();
  const fetched: string[] = [];
  const common = { description: 'd', mimeType: 'text/plain' };
  server.resource({
    ...common,
    name: 'fixed',
    uriPattern: 'x://fixed',
    isStatic: true,
    fetch: () => {
      fetched.push('fixed');
      return fetched.length === 1
        ? Promise.reject(new Error('not yet'))
        : Promise.resolve('content');
    },
  });
  server.resource({
    ...common,
    name: 'dynamic',
    uriPattern: 'x://items/{item}',
    isStatic: false,
    fetch: (variables) => {
      fetched.push(variables['item'] ?? '');
      return Promise.resolve(variables['item'] ?? '');
    },
  });
  await connected(server, async (client) => {
    await fails(-32603, client.readResource({ uri: 'x://fixed' })); // a failure is not kept
    for (let i = 0; i < 3; i++) {
      await client.readResource({ uri: 'x://fixed' });
      const { contents } = await client.readResource({ uri: 'x://items/a%2Fb%25' });
      assert.equal((contents[0] as { text: string }).text, 'a/b%');
    }
  });
  assert.deepEqual(fetched, ['fixed', 'fixed', 'a/b%', 'a/b%', 'a/b%']);
});

test('a static resource goes on without the caller that was first', async () => {
  const server = newServer();
  const [begun, release] = [new Event(), new Event()];
  server.resource({
    name: 'fixed',
    description: 'd',
    uriPattern: 'x://fixed',
    mimeType: 'text/plain',
    isStatic: true,
    fetch: async (_, signal) => {
      begun.set();
      await release.happened;
      signal.throwIfAborted();
      return 'content';
    },
  });
  await connected(server, async (client) => {
    const first = new AbortController();
    const gone = client.readResource({ uri: 'x://fixed' }, { signal: first.signal });
    await begun.happened;
    const second = client.readResource({ uri: 'x://fixed' });
    first.abort();
    await assert.rejects(gone);
    release.set();
    const { contents } = await second;
    assert.equal((contents[0] as { text: string }).text, 'content');
  });
});

function repeating(server: Server): Server {
  server.tool({
    name: 'repeat',
    description: 'Repeat x.',
    inputSchema: z.object({ count: z.int() }),
    threadSafe: true,
    handler: ({ count }) => Promise.resolve('x'.repeat(count)),
  });
  server.resource({
    name: 'large',
    description: 'Many x.',
    uriPattern: 'x://large',
    mimeType: 'text/plain',
    isStatic: true,
    fetch: () => Promise.resolve('x'.repeat(1024 * 1024)),
  });
  return server;
}
const repeat = (count: number) => ({ name: 'repeat', arguments: { count } });

test('a response has max_response_size_mb at most', async () => {
  await connected(repeating(newServer({ max_response_size_mb: 1 })), async (client) => {
    assert.equal(said(await client.callTool(repeat(500_000))).length, 500_000);
    await fails(TOO_LARGE, client.callTool(repeat(1024 * 1024)), /max_response_size_mb is 1/);
    await fails(TOO_LARGE, client.readResource({ uri: 'x://large' }));
    const around = JSON.stringify({ content: [{ type: 'text', text: '' }] }).length;
    const most = 1024 * 1024 - around;
    assert.equal(said(await client.callTool(repeat(most))).length, most);
    await fails(TOO_LARGE, client.callTool(repeat(most + 1)), /has 1048577 bytes/);
  });
});

test('memory in flight is bounded', async () => {
  const gate = new Gate(10, 10, 1000);
  await connected(repeating(new Server(configured(), gate)), async (client) => {
    await fails(UNAVAILABLE, client.callTool(repeat(1000)), /in flight hold 1000 bytes/);
    assert.equal(said(await client.callTool(repeat(10))).length, 10);
  });
  assert.equal(gate.held, 0);
});

test('a request whose id is in use is refused', async () => {
  const server = new Server(configured());
  const held = waiting(server);
  server.start();
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.build().connect(new Guard(server, theirs));
  const answers: unknown[] = [];
  const both = new Event();
  ours.onmessage = (message) => {
    answers.push(message);
    if (answers.length === 1) held.release.set();
    else both.set();
  };
  await ours.start();
  const twice = { jsonrpc: '2.0' as const, id: 7, method: 'tools/call', params: { name: 'wait' } };
  await ours.send(twice);
  await held.begun.happened;
  await ours.send(twice);
  await both.happened;
  const [refused, answered] = answers as Answer[];
  assert.deepEqual(refused?.error, { code: -32600, message: 'a request with id 7 runs' });
  assert.deepEqual(answered?.result?.content, [{ type: 'text', text: 'waited' }]);
  await server.gate.idle(); // no slot is lost
  await ours.close();
});

test('a server that is not ready refuses', async () => {
  const server = newServer();
  await connected(server, async (client) => {
    server.lifecycle.to('shutting_down');
    await fails(UNAVAILABLE, client.callTool({ name: 'echo', arguments: { number: 1 } }));
  });
});

test('a full queue refuses, and what was cancelled in it does not run', async () => {
  const gate = new Gate(1, 1);
  const server = new Server(configured(), gate);
  const held = waiting(server);
  let ran = 0;
  server.tool({
    name: 'count',
    description: 'Count.',
    inputSchema: nothing,
    handler: () => Promise.resolve(String(++ran)),
  });
  const count = { name: 'count', arguments: {} };
  await connected(server, async (client) => {
    const first = client.callTool({ name: 'wait', arguments: {} });
    await held.begun.happened;
    const gone = new AbortController();
    const queued = client.callTool(count, { signal: gone.signal });
    const sent = new Event();
    setImmediate(sent.set);
    await sent.happened;
    assert.equal(gate.accepted, 2);
    await fails(UNAVAILABLE, client.callTool(count));
    gone.abort();
    await assert.rejects(queued);
    held.release.set();
    assert.equal(said(await first), 'waited');
    assert.equal(said(await client.callTool(count)), '1');
  });
  assert.equal(gate.accepted, 0);
});
