// The tools, resources and prompts of this server.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { ProtocolError } from '@modelcontextprotocol/client';
import { TransientError } from '../src/capabilities.js';
import { create } from '../src/main.js';
import * as resources from '../src/resources.js';
import { ToolError } from '../src/server.js';
import * as tools from '../src/tools.js';
import { configured, connected, said } from './helpers.js';

const PUBLIC = '93.184.215.14';

test('what is offered', () => {
  const server = create(configured());
  assert.deepEqual([...server.tools.keys()], ['fetch_url']);
  assert.deepEqual([...server.resources.keys()], ['about', 'file_browser']);
  assert.deepEqual([...server.prompts.keys()], ['code_review']);
});

test('fetch_url as it is listed', async () => {
  await connected(create(configured()), async (client) => {
    const { tools: listed } = await client.listTools();
    assert.deepEqual(listed[0]?.inputSchema.required, ['url']);
    const { url, timeout_seconds: seconds } = listed[0].inputSchema.properties as Listed;
    assert.deepEqual([url?.['type'], url?.['format']], ['string', 'uri']);
    const { type, minimum, maximum } = seconds ?? {};
    assert.deepEqual([type, minimum, maximum], ['integer', 1, 60]);
    for (const timeout_seconds of [0, 61, 1.5]) {
      const args = { url: 'http://site.example/', timeout_seconds };
      const result = await client.callTool({ name: 'fetch_url', arguments: args });
      assert.match(said(result), /^invalid arguments of fetch_url: timeout_seconds: /);
    }
    const { prompts } = await client.listPrompts();
    const required = prompts[0]?.arguments?.map((one) => [one.name, one.required]);
    assert.deepEqual(required, [
      ['code', true],
      ['language', false],
      ['focus', false],
    ]);
  });
});
type Listed = Record<string, Record<string, unknown> | undefined>;

test('public addresses', () => {
  const table: Record<string, boolean> = {
    [PUBLIC]: true,
    '2606:2800:21f:cb07:6820:80da:af6b:8b2c': true,
    '::ffff:93.184.215.14': true,
    '127.0.0.1': false,
    '10.1.2.3': false,
    '172.16.0.1': false,
    '192.168.0.1': false,
    '169.254.169.254': false,
    '100.64.0.1': false,
    '0.0.0.0': false,
    '224.0.0.1': false,
    '255.255.255.255': false,
    '::1': false,
    '::': false,
    'fe80::1': false,
    'fe80::1%eth0': false,
    'fd00::1': false,
    'ff02::1': false,
    '::ffff:127.0.0.1': false,
    '::ffff:7f00:1': false,
    '64:ff9b::7f00:1': false,
    '2002:7f00:1::': false,
    '2001:0:7f00:1::': false,
    'example.com': false,
  };
  for (const [address, want] of Object.entries(table)) {
    assert.equal(tools.isPublic(address), want, address);
  }
});

/** Names with their addresses, and what answers there. */
function web(answers: Record<string, [number, Record<string, string>, string | Buffer]> = {}) {
  const names: Record<string, string[]> = {
    'site.example': [PUBLIC],
    'inner.example': ['10.0.0.1'],
    'both.example': [PUBLIC, '127.0.0.1'],
  };
  const seen: string[] = [];
  const by: tools.Web = {
    resolve: (host) => {
      const found = names[host];
      return found ? Promise.resolve(found) : Promise.reject(new Error('no such name'));
    },
    get: (url, address) => {
      seen.push(`${url.host} at ${address}`);
      const [statusCode, headers, content] = answers[url.pathname] ?? [404, {}, ''];
      const body = Readable.from([Buffer.from(content)]);
      return Promise.resolve(
        Object.assign(body, { statusCode, headers }) as unknown as IncomingMessage,
      );
    },
  };
  const get = (url: string, seconds = 10) => tools.fetchText(url, seconds, undefined, by);
  return { get, seen, by };
}

const refuses = (
  work: Promise<unknown>,
  text: RegExp,
  kind: new (...args: never[]) => Error = ToolError,
) => assert.rejects(work, (error) => error instanceof kind && text.test(error.message));

test('fetch_url calls the address that was checked', async () => {
  const { get, seen } = web({ '/a': [200, {}, 'hello'] });
  assert.equal(await get('https://site.example/a#part'), 'hello');
  assert.deepEqual(seen, [`site.example at ${PUBLIC}`]);
});

test('fetch_url refuses', async () => {
  for (const [url, text] of [
    ['ftp://site.example/', /only http and https/],
    ['file:///etc/passwd', /only http and https/],
    ['/relative', /not a URL/],
    ['http://[::1/', /not a URL/],
    ['http://user:word@site.example/', /credentials/],
    ['http://inner.example/', /not public/],
    ['http://both.example/', /not public/],
    ['http://127.0.0.1/', /not public/],
    ['http://[::1]/', /not public/],
    ['http://[::ffff:127.0.0.1]/', /not public/],
    ['http://2130706433/', /not public/],
    ['http://0x7f.1/', /not public/],
  ] as const) {
    const { get, seen } = web();
    await refuses(get(url), text);
    assert.deepEqual(seen, []);
  }
  await refuses(tools.fetchText('http://localhost/', 10), /not public/);
});

test('fetch_url checks each redirect', async () => {
  for (const [location, text] of [
    ['http://inner.example/', /not public/],
    ['http://127.0.0.1/', /not public/],
    ['file:///etc/passwd', /only http and https/],
    ['/again', /more than 5 redirects/],
  ] as const) {
    const { get } = web({ '/again': [302, { location }, ''] });
    await refuses(get('http://site.example/again'), text);
  }
  const hop = (n: number): [number, Record<string, string>, string] => [
    301,
    { location: `/${n}` },
    '',
  ];
  const hops = { '/0': hop(1), '/1': hop(2), '/2': hop(3), '/3': hop(4), '/4': hop(5) };
  const { get } = web({ ...hops, '/5': [200, {}, 'here'], '/6': hop(0) });
  assert.equal(await get('http://site.example/0'), 'here');
  await refuses(get('http://site.example/6'), /more than 5 redirects/);
});

test('fetch_url bounds size and time', async () => {
  const { get, by } = web({
    '/large': [200, {}, Buffer.alloc(tools.MAX_BYTES + 1)],
    '/fits': [200, {}, Buffer.alloc(tools.MAX_BYTES)],
    '/packed': [200, { 'content-encoding': 'gzip' }, 'x'],
  });
  assert.equal((await get('http://site.example/fits')).length, tools.MAX_BYTES);
  await refuses(get('http://site.example/large'), /more than 1048576 bytes/);
  await refuses(get('http://site.example/packed'), /compressed/);
  const never = { ...by, resolve: () => new Promise<string[]>(() => undefined) };
  const alive = setInterval(() => undefined, 1000); // a timeout alone does not keep Node.js running
  await refuses(
    tools.fetchText('http://site.example/', 1, undefined, never),
    /no answer within 1 s/,
  );
  clearInterval(alive);
});

test('fetch_url tells what may be tried again', async () => {
  for (const status of [502, 503, 504]) {
    const { get } = web({ '/': [status, {}, ''] });
    await refuses(get('http://site.example/'), /answered/, TransientError);
  }
  await refuses(web().get('http://unknown.example/'), /cannot be fetched/, TransientError);
  await refuses(web().get('http://site.example/'), /answered 404/);
});

async function inFolder(use: (root: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'browse-'));
  const root = path.join(folder, 'root');
  mkdirSync(path.join(root, 'sub'), { recursive: true });
  mkdirSync(path.join(folder, 'root-beside'));
  writeFileSync(path.join(root, 'sub', 'a.txt'), 'inside');
  writeFileSync(path.join(folder, 'secret.txt'), 'outside');
  try {
    await use(root);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const missing = (root: string, name: string) =>
  refuses(resources.browse(root, name), /is not there/, Error);

test('file_browser stays below its root', async () => {
  await inFolder(async (root) => {
    const entries = [{ name: 'sub', kind: 'folder' }];
    assert.deepEqual(await resources.browse(root, '.'), { path: '.', entries });
    assert.deepEqual(await resources.browse(root, 'sub/a.txt'), {
      path: 'sub/a.txt',
      text: 'inside',
    });
    const outside = [
      '..',
      '../secret.txt',
      'sub/../../secret.txt',
      '../root-beside',
      'none',
      'a\0b',
    ];
    for (const name of [...outside, path.resolve(root, '../secret.txt')]) await missing(root, name);
  });
});

test('file_browser stays below its root, also through links', async () => {
  await inFolder(async (root) => {
    symlinkSync(path.dirname(root), path.join(root, 'out'));
    symlinkSync(path.join(root, '../secret.txt'), path.join(root, 'file'));
    symlinkSync(path.join(root, 'loop'), path.join(root, 'loop'));
    symlinkSync(path.join(root, 'sub'), path.join(root, 'in'));
    for (const name of ['out', 'out/secret.txt', 'file', 'loop']) await missing(root, name);
    assert.equal((await resources.browse(root, 'in/a.txt'))['text'], 'inside');
  });
});

test('file_browser is bounded', async () => {
  await inFolder(async (root) => {
    writeFileSync(path.join(root, 'large'), Buffer.alloc(resources.MAX_BYTES + 1, 'x'));
    writeFileSync(path.join(root, 'binary'), Buffer.from([0xff, 0xfe, 0xff]));
    execFileSync('mkfifo', [path.join(root, 'pipe')]);
    await refuses(resources.browse(root, 'large'), /more than/, Error);
    await refuses(resources.browse(root, 'binary'), /not text/, Error);
    await refuses(resources.browse(root, 'pipe'), /neither/, Error);
    mkdirSync(path.join(root, 'many'));
    for (let i = 0; i <= resources.MAX_ENTRIES; i++) {
      writeFileSync(path.join(root, 'many', String(i)), '');
    }
    await refuses(resources.browse(root, 'many'), /more than 1000 entries/, Error);
    rmSync(path.join(root, 'many', '0'));
    const { entries } = await resources.browse(root, 'many');
    assert.equal((entries as unknown[]).length, 1000);
  });
});

test('file_browser through the server', async () => {
  await inFolder(async (root) => {
    await connected(create(configured({ file_root: root })), async (client) => {
      const got = await client.readResource({ uri: 'file:///sub%2Fa.txt' });
      assert.match(JSON.stringify(got.contents), /inside/);
      const { contents } = await client.readResource({ uri: 'file:///.%2F' });
      assert.match(JSON.stringify(contents), /entries.*sub.*folder/);
      const outside = [
        'file:///..%2Fsecret.txt',
        'file:///%2Fetc%2Fpasswd',
        'file:///a%2',
        'file:///a/b',
      ];
      for (const uri of outside) {
        await assert.rejects(client.readResource({ uri }), ProtocolError, uri);
      }
    });
  });
});

test('code_review', async () => {
  await connected(create(configured()), async (client) => {
    const args = { code: 'a = {focus}', language: 'C', focus: '["style"]' };
    const { messages } = await client.getPrompt({ name: 'code_review', arguments: args });
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'user'],
    );
    assert.deepEqual(messages[1]?.content, {
      type: 'text',
      text: 'Review this C code focusing on style:\n\na = {focus}',
    });
    const defaults = await client.getPrompt({ name: 'code_review', arguments: { code: 'a' } });
    assert.match(
      JSON.stringify(defaults.messages),
      /Review this python code focusing on security, performance:/,
    );
    const wrong: Record<string, string>[] = [
      {},
      { code: 'x', focus: 'style' },
      { code: 'x', colour: 'blue' },
    ];
    for (const given of wrong) {
      const asked = client.getPrompt({ name: 'code_review', arguments: given });
      await assert.rejects(
        asked,
        (error) => error instanceof ProtocolError && error.code === -32602,
      );
    }
  });
});
