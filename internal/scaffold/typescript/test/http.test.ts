// The door of HTTP, and the paths behind it.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { Gate, BODY_BYTES } from '../src/limits.js';
import { RATE_LIMITED, Server, UNAUTHORIZED } from '../src/server.js';
import {
  BEARER,
  KEY,
  TOKEN,
  call,
  configured,
  listening,
  newServer,
  post,
  request,
  waiting,
} from './helpers.js';

const list = request('tools/list');
const ACCEPT = { ...BEARER, Accept: 'application/json, text/event-stream' };
const LEGACY = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
};

/** A message with what revision 2026-07-28 asks for, and its headers. */
function modern(message: { method: string; params: Record<string, unknown> }) {
  const version = '2026-07-28';
  message.params['_meta'] = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const { name } = message.params;
  return {
    ...ACCEPT,
    'MCP-Protocol-Version': version,
    'Mcp-Method': message.method,
    ...(typeof name === 'string' ? { 'Mcp-Name': name } : {}),
  };
}

test('HTTP is always authenticated', async () => {
  await listening(newServer, async ({ url }) => {
    const table: [Record<string, string>, number][] = [
      [{}, 401],
      [{ Authorization: `Bearer ${TOKEN}x` }, 401],
      [{ Authorization: `Basic ${TOKEN}` }, 401],
      [{ Authorization: `Bearer ${KEY}` }, 401],
      [{ 'X-API-Key': TOKEN }, 401],
      [{ 'X-API-Key': '' }, 401],
      [{ Authorization: `Bearer ${TOKEN}` }, 200],
      [{ Authorization: `bearer ${TOKEN}` }, 200],
      [{ 'X-API-Key': KEY }, 200],
    ];
    for (const [headers, status] of table) {
      const got = await post(url, list, headers);
      assert.equal(got.status, status, JSON.stringify(headers));
      if (status === 401) {
        assert.equal(got.headers.get('WWW-Authenticate'), 'Bearer');
        assert.equal(got.json.error?.code, UNAUTHORIZED);
      }
    }
    for (const path of ['/mcp', '/mcp/sse', '/mcp/tools/list', '/messages', '/other']) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        assert.equal((await fetch(url + path, { method })).status, 401, `${method} ${path}`);
      }
    }
  });
});

test('one credential is enough', async () => {
  await listening(
    newServer,
    async ({ url }) => {
      assert.equal((await post(url, list, { Authorization: 'Bearer undefined' })).status, 401);
      assert.equal((await post(url, list, { 'X-API-Key': KEY })).status, 200);
    },
    { bearer_token: undefined },
  );
});

test('both eras at /mcp', async () => {
  await listening(newServer, async ({ url }) => {
    const message = call('echo', { number: 7 });
    const content = [{ type: 'text', text: '7' }];
    const legacy = await post(url, message, ACCEPT, '/mcp');
    assert.deepEqual(legacy.json.result?.content, content);
    const got = await post(url, message, modern(message), '/mcp');
    assert.deepEqual(got.json.result?.content, content);
    const hello = await post(url, request('initialize', LEGACY), ACCEPT, '/mcp');
    assert.equal(hello.json.result?.['protocolVersion'], '2025-11-25');
  });
});

test('POST /mcp/METHOD, and the errors of JSON-RPC', async () => {
  const make = (changes: Record<string, unknown>) => {
    const server = newServer(changes);
    server.resource({
      name: 'r',
      description: 'd',
      uriPattern: 'x://{id}',
      mimeType: 'text/plain',
      isStatic: false,
      fetch: ({ id = '' }) => Promise.resolve(id),
    });
    const template = [{ role: 'user' as const, text: 'x' }];
    server.prompt({ name: 'p', description: 'd', parameters: {}, template });
    return server;
  };
  await listening(make, async ({ url }) => {
    const table: [string, unknown, number, number | undefined][] = [
      ['tools/call', call('echo', { number: 7 }), 200, undefined],
      ['tools/list', list, 200, undefined],
      ['resources/list', request('resources/list'), 200, undefined],
      ['resources/templates/list', request('resources/templates/list'), 200, undefined],
      ['resources/read', request('resources/read', { uri: 'x://größe' }), 200, undefined],
      ['prompts/list', request('prompts/list'), 200, undefined],
      ['prompts/get', request('prompts/get', { name: 'p' }), 200, undefined],
      ['server/discover', request('server/discover'), 200, undefined],
      ['tools/call', list, 400, -32600],
      ['tools/call', [], 400, -32600],
      ['tools/list', { method: 'tools/list', id: 1 }, 400, -32600],
      ['tools/list', '{', 400, -32700],
      ['tools/none', request('tools/none'), 404, -32601],
      ['tools/call', call('none'), 200, -32602],
      ['tools/call', call('größe'), 200, -32602],
    ];
    for (const [path, body, status, code] of table) {
      const got = await post(url, body, BEARER, `/mcp/${path}`);
      assert.deepEqual([got.status, got.json.error?.code], [status, code], got.text);
    }
    assert.equal((await fetch(`${url}/other`, { headers: BEARER })).status, 404);
  });
});

test('rate and burst: 429 with Retry-After', async () => {
  await listening(
    newServer,
    async ({ url }) => {
      const got = [];
      for (let i = 0; i < 5; i++) got.push(await post(url, list));
      assert.deepEqual(
        got.map(({ status }) => status),
        [200, 200, 200, 429, 429],
      );
      const last = got[4];
      const wait = Number(last?.headers.get('Retry-After'));
      assert.ok(wait >= 1 && wait <= 60, String(wait));
      assert.equal(last?.json.error?.code, RATE_LIMITED);
      assert.equal((await post(url, list, { 'X-API-Key': KEY })).status, 200); // has its own
    },
    { rate_limit_per_minute: 1, rate_limit_burst: 3 },
  );
});

test('too many requests at a time: 503', async () => {
  let held: ReturnType<typeof waiting> | undefined;
  const make = (changes: Record<string, unknown>) => {
    const server = new Server(configured(changes), new Gate(1, 1));
    held = waiting(server);
    return server;
  };
  await listening(make, async ({ url }, server) => {
    const first = post(url, call('wait'));
    await held?.begun.happened;
    const second = post(url, call('wait'));
    while (server.gate.accepted < 2) await new Promise(setImmediate);
    const refused = await post(url, call('wait'));
    assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [503, '1']);
    held?.release.set();
    for (const got of await Promise.all([first, second])) assert.match(got.text, /waited/);
  });
});

test('bodies are bounded, each and together', async () => {
  const make = (changes: Record<string, unknown>) =>
    Object.assign(newServer(changes), { gate: new Gate(10, 10, 500) });
  await listening(make, async ({ url }, server) => {
    const got = await post(url, request('tools/list', { x: 'y'.repeat(600) }));
    assert.equal(got.status, 503);
    while (server.gate.accepted > 0) await new Promise(setImmediate);
    assert.equal(server.gate.held, 0);
  });
  await listening(newServer, async ({ url }) => {
    const status = await post(url, ' '.repeat(BODY_BYTES + 1)).then(
      (got) => got.status,
      () => 413, // the connection is closed while the rest is sent
    );
    assert.equal(status, 413);
    const full = JSON.stringify(list).padEnd(BODY_BYTES);
    assert.equal((await post(url, full, BEARER, '/mcp/tools/list')).status, 200);
  });
});

test('streams are bounded, and leave slots for requests', async () => {
  await listening(newServer, async ({ url }) => {
    const open = [];
    for (let i = 0; i < 100; i++) open.push(await fetch(`${url}/mcp/sse`, { headers: BEARER }));
    assert.ok(open.every(({ status }) => status === 200));
    assert.equal((await fetch(`${url}/mcp/sse`, { headers: BEARER })).status, 503);
    const message = request('subscriptions/listen');
    assert.equal((await post(url, message, modern(message), '/mcp')).status, 503);
    assert.equal((await post(url, list)).status, 200);
    await open[0]?.body?.cancel(); // one that has ended makes room
    const deadline = Date.now() + 10_000;
    let status = 503;
    while (status === 503 && Date.now() < deadline) {
      const again = await fetch(`${url}/mcp/sse`, { headers: BEARER });
      ({ status } = again);
    }
    assert.equal(status, 200);
  });
});

test('CORS if configured', async () => {
  const origin = 'https://app.example.com';
  const preflight = {
    method: 'OPTIONS',
    headers: { Origin: origin, 'Access-Control-Request-Headers': 'authorization' },
  };
  const allowed = 'Access-Control-Allow-Origin';
  await listening(
    newServer,
    async ({ url }) => {
      const got = await fetch(`${url}/mcp`, preflight);
      assert.deepEqual([got.status, got.headers.get(allowed)], [204, origin]);
      const answer = await post(url, list, { ...BEARER, Origin: origin });
      assert.deepEqual([answer.status, answer.headers.get(allowed)], [200, origin]);
      const evil = await post(url, list, { ...BEARER, Origin: 'https://evil.example' });
      assert.deepEqual([evil.status, evil.headers.get(allowed)], [403, null]);
    },
    { cors_origins: [origin] },
  );
  await listening(newServer, async ({ url }) => {
    assert.equal((await fetch(`${url}/mcp`, preflight)).status, 401);
  });
});

test('no DNS rebinding', async () => {
  const asked = (url: string, host: string) =>
    new Promise<number | undefined>((done, failed) => {
      const headers = { ...BEARER, Host: host, 'Content-Type': 'application/json' };
      const sent = http.request(`${url}/mcp/tools/list`, { method: 'POST', headers }, (got) => {
        got.resume().on('end', () => {
          done(got.statusCode);
        });
      });
      sent.on('error', failed).end(JSON.stringify(list));
    });
  await listening(
    newServer,
    async ({ url }, server) => {
      server.config.http_host = 'host.example';
      const table = {
        '127.0.0.1:1': 200,
        'localhost:1': 200,
        'evil.example': 403,
        'own.example': 200,
        'host.example': 200,
      };
      for (const [host, status] of Object.entries(table)) {
        assert.equal(await asked(url, host), status, host);
      }
    },
    { allowed_hosts: ['own.example'] },
  );
});

test('a shutdown finishes what runs, and refuses what is new', async () => {
  let held: ReturnType<typeof waiting> | undefined;
  const states: string[] = [];
  const make = (changes: Record<string, unknown>) => {
    const server = new Server(configured(changes));
    server.lifecycle.observe((state) => states.push(state));
    held = waiting(server);
    return server;
  };
  await listening(make, async ({ url, stop, ended }, server) => {
    const running = Array.from({ length: 10 }, () => post(url, call('wait')));
    while (server.gate.accepted < 10) await new Promise(setImmediate);
    await held?.begun.happened;
    stop.abort();
    while (server.lifecycle.state === 'ready') await new Promise(setImmediate);
    const refused = await post(url, list);
    assert.equal(refused.status, 503);
    assert.match(refused.text, /shutting_down/);
    held?.release.set();
    for (const got of await Promise.all(running)) {
      assert.equal(got.status, 200);
      assert.match(got.text, /waited/);
    }
    await ended;
  });
  assert.deepEqual(states, ['ready', 'shutting_down', 'stopped']);
});

test('a shutdown ends what takes too long', async () => {
  let held: ReturnType<typeof waiting> | undefined;
  const make = (changes: Record<string, unknown>) => {
    const server = new Server(configured(changes));
    held = waiting(server);
    return server;
  };
  const work = async ({
    url,
    stop,
    ended,
  }: {
    url: string;
    stop: AbortController;
    ended: Promise<void>;
  }) => {
    const running = post(url, call('wait')).then(
      ({ text }) => text,
      () => 'cut off',
    );
    await held?.begun.happened;
    stop.abort();
    await ended;
    assert.doesNotMatch(await running, /waited/);
    held?.release.set();
  };
  await listening(make, work, {}, 0);
});

test('GET /mcp/sse is a stream of messages', async () => {
  await listening(newServer, async ({ url }) => {
    const stream = await fetch(`${url}/mcp/sse`, { headers: BEARER });
    const events = data(stream);
    const next = async () => String((await events.next()).value);
    const endpoint = await next();
    const send = (message: unknown, headers: Record<string, string> = BEARER) =>
      post(url, message, headers, endpoint);
    assert.equal((await send(request('initialize', LEGACY))).status, 202);
    assert.match(await next(), /"serverInfo":\{"name":"tested"/);
    await send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    await send(call('echo', { number: 7 }));
    assert.match(await next(), /"text":"7"/);
    assert.equal((await send(list, { 'X-API-Key': KEY })).status, 404); // another's
  });
});

/** The data of the events of a stream. */
async function* data(response: Response): AsyncGenerator<string, void> {
  let text = '';
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(part).toString();
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const found = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (found !== undefined) yield found;
    }
  }
}
