// Every outcome of a call by the runtime of generated TypeScript, at a service whose answers this file scripts. `node --test runtime.test.mjs`, with the Node.js
// 22.18 or later that runs TypeScript; run.mjs does so.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, before, after, test } from 'node:test';
import { call, configure, ToolError } from '../../internal/generate/typescript/runtime.ts';

const GOOD = { content: [{ type: 'text', text: 'done' }, { type: 'image', data: 'eA==' }, { type: 'text', text: 'twice' }], structuredContent: { number: 7 } };
const good = JSON.stringify({ success: true, data: GOOD });
const requests = []; // those of the service: { path, headers, body }
let script; // answers a request
let service;
let server;

before(async () => {
  server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    requests.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
    await script(response, JSON.parse(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  service = { name: 'issues', url: `http://127.0.0.1:${server.address().port}/base/`, urlVariable: 'MCP_URL_ISSUES', tokenVariable: 'MCP_TOKEN_ISSUES' };
});
after(() => { server.closeAllConnections(); server.close(); });
afterEach(() => {
  delete process.env.MCP_URL_ISSUES;
  delete process.env.MCP_TOKEN_ISSUES;
  for (const name of ['', 'issues']) configure({ url: undefined, token: undefined, timeout: undefined, onLog: undefined, onQuestion: undefined }, name);
});

const answer = (status, body, headers = { 'content-type': 'application/json' }) => response => response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));

/** Answers with a stream in the given pieces, each of which arrives alone. */
const stream = (...pieces) => async response => {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  for (const piece of pieces) await new Promise(done => { response.write(piece, () => setImmediate(done)); });
  response.end();
};

/** The error of a call, which must fail. */
const failure = (options, args = {}) => call(service, 'create', args, options).then(() => assert.fail('no error'), error => error);

test('a result', async () => {
  script = answer(200, good);
  const result = await call(service, 'create issue', { a: 1, b: undefined, c: null });
  assert.deepEqual(result, { structured: { number: 7 }, content: GOOD.content, text: 'done\ntwice', raw: GOOD });
  const { path, headers, body } = requests.at(-1);
  assert.equal(path, '/base/call-tool');
  assert.deepEqual(body, { tool: 'create issue', arguments: { a: 1, c: null } });
  assert.equal(headers.accept, 'application/json');
  assert.equal(headers.authorization, undefined);
});

test('where it is called, and as whom', async () => {
  script = answer(200, good);
  const to = async options => { await call(service, 'x', {}, options); const { path, headers } = requests.at(-1); return `${path} ${headers.authorization}`; };
  process.env.MCP_URL_ISSUES = `${service.url}variable//`;
  process.env.MCP_TOKEN_ISSUES = 'variable';
  assert.equal(await to(), '/base/variable/call-tool Bearer variable');
  configure({ url: `${service.url}all`, token: 'all' });
  assert.equal(await to(), '/base/all/call-tool Bearer all');
  configure({ token: 'service' }, 'issues');
  configure({ token: 'other' }, 'others');
  assert.equal(await to(), '/base/all/call-tool Bearer service');
  assert.equal(await to({ url: service.url, token: 'call' }), '/base/call-tool Bearer call');
});

for (const [code, status] of [['TOOL_NOT_FOUND', 404], ['INVALID_ARGUMENTS', 400], ['EXECUTION_ERROR', 500], ['INTERNAL_ERROR', 500], ['TIMEOUT', 504], ['SERVICE_UNAVAILABLE', 503], ['ANOTHER', 418]]) {
  test(`the error ${code}`, async () => {
    const envelope = { success: false, error: `it says ${code}`, code, meta: { result: { content: [] } } };
    script = answer(status, envelope);
    const error = await failure();
    assert.ok(error instanceof ToolError);
    assert.deepEqual([error.name, error.message, error.code, error.status, error.envelope, error.retryAfter], ['ToolError', `it says ${code}`, code, status, envelope, undefined]);
  });
}

test('how long to wait', async () => {
  script = answer(429, { success: false, error: 'slower', code: 'RATE_LIMITED' }, { 'retry-after': '3' });
  assert.equal((await failure()).retryAfter, 3);
  script = answer(429, { success: false, error: 'slower', code: 'RATE_LIMITED' }, { 'retry-after': 'Sun, 29 Nov 2026 00:00:00 GMT' });
  assert.equal((await failure()).retryAfter, undefined);
});

test('a tool that says that it has failed', async () => {
  script = answer(200, { success: true, data: { isError: true, content: [{ type: 'text', text: 'by itself' }] } });
  const error = await failure();
  assert.deepEqual([error.message, error.code, error.envelope.meta.result.isError], ['by itself', 'EXECUTION_ERROR', true]);
  script = answer(200, { success: true, data: { isError: true, content: [] } });
  assert.equal((await failure()).message, 'the tool has failed');
});

test('what is no envelope', async () => {
  for (const body of ['<h1>', '', '[]', 'null', '{"success":true}', '{"success":true,"data":null}', '{"success":1,"data":{}}']) {
    script = answer(502, body);
    const error = await failure();
    assert.deepEqual([error.code, error.status, error.message], ['NO_ANSWER', 502, 'the answer, with status 502, is no envelope'], body);
  }
});

test('a redirect is not followed, so that no token goes elsewhere', async () => {
  script = answer(307, '', { location: '/elsewhere' });
  const asked = requests.length;
  assert.equal((await failure({ token: 'secret' })).code, 'NO_ANSWER');
  assert.equal(requests.length, asked + 1);
});

test('nothing answers', async () => {
  const error = await failure({ url: 'http://127.0.0.1:1' });
  assert.equal(error.code, 'NO_ANSWER');
  assert.match(error.message, /^no answer from http:\/\/127\.0\.0\.1:1\/call-tool: /);
  assert.ok(error.cause);
});

test('progress and log messages, however the stream is cut', async () => {
  const events = `: comment\r\n\r\nevent: progress\r\ndata: {"progress":1,\r\ndata: "total":2,"message":"é"}\r\n\r\nevent: other\ndata: {}\n\nevent: log\ndata:{"level":"info","data":[1]}\n\nevent: result\ndata: ${good}\n\n`;
  const bytes = Buffer.from(events);
  for (const size of [1, 2, 7, bytes.length]) {
    script = stream(...Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size)));
    const progress = [];
    const logs = [];
    const { structured } = await call(service, 'x', {}, { onProgress: p => progress.push(p), onLog: l => logs.push(l) });
    assert.deepEqual([structured, progress, logs], [{ number: 7 }, [{ progress: 1, total: 2, message: 'é' }], [{ level: 'info', data: [1] }]]);
  }
  assert.equal(requests.at(-1).headers.accept, 'text/event-stream');
  assert.equal(requests.at(-1).body.log_level, 'info');
  script = answer(200, good);
  await call(service, 'x', {}, { onProgress: () => {} });
  assert.equal('log_level' in requests.at(-1).body, false);
});

test('a stream without its result', async () => {
  script = stream('event: progress\ndata: {"progress":1}\n\n', 'event: result\ndata: {"suc');
  const error = await failure({ onProgress: () => {} });
  assert.deepEqual([error.code, error.message], ['NO_ANSWER', 'the answer ended before its result']);
});

test('an error at the end of a stream', async () => {
  script = stream('event: result\ndata: {"success":false,"error":"no","code":"EXECUTION_ERROR"}\n\n');
  assert.equal((await failure({ onLog: () => {} })).code, 'EXECUTION_ERROR');
});

test('questions', async () => {
  const question = { success: true, data: { result_type: 'input_required', input_requests: { q: { method: 'elicitation/create' } } } };
  script = (response, body) => answer(200, body.request_state === 's2' ? good : { ...question, data: { ...question.data, request_state: body.request_state ? 's2' : 's1' } })(response);
  const asked = [];
  const { structured } = await call(service, 'x', { a: 1 }, { onQuestion: async all => { asked.push(all); return { q: { action: 'accept', round: asked.length } }; } });
  assert.deepEqual(structured, { number: 7 });
  assert.deepEqual(asked, [question.data.input_requests, question.data.input_requests]);
  assert.deepEqual(requests.at(-1).body, { tool: 'x', arguments: { a: 1 }, input_responses: { q: { action: 'accept', round: 2 } }, request_state: 's2' });
  const error = await failure();
  assert.deepEqual([error.code, error.envelope.input_requests], ['INPUT_REQUIRED', question.data.input_requests]);
});

test('questions without an end', async () => {
  script = answer(200, { success: true, data: { result_type: 'input_required' } });
  let rounds = 0;
  const error = await failure({ onQuestion: all => { assert.deepEqual(all, {}); rounds++; return {}; } });
  assert.deepEqual([error.code, rounds], ['NO_ANSWER', 32]);
});

test('a call that takes too long', async () => {
  script = () => {}; // says nothing
  assert.equal((await failure({ timeout: 1 })).code, 'TIMEOUT');
});

test('a call that is given up', async () => {
  const given = new AbortController();
  const closed = new Promise(done => { script = response => { response.on('close', done); given.abort(new Error('given up')); }; });
  assert.equal((await failure({ signal: given.signal })).message, 'given up');
  await closed; // the server learns of it
});

test('another fetch', async () => {
  const { text } = await call(service, 'x', {}, { fetch: async (url, init) => { assert.match(url, /\/base\/call-tool$/); assert.equal(init.redirect, 'error'); return new Response(good); } });
  assert.equal(text, 'done\ntwice');
});
