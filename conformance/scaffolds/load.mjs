#!/usr/bin/env node
// load.mjs URL rate|overload|shutdown [SECONDS] [PID]: load on a project over HTTP. The credential is in MCP_BEARER_TOKEN. Prints counts as
// JSON; exits with 1 if an answer was wrong or missing.
//
//   rate      mixed requests from 20 connections for SECONDS: each is answered, by its own right result or by 429 with Retry-After
//   overload  1,300 calls at once that take a second: 1,100 are answered with a result, the others with 503 and Retry-After
//   shutdown  calls of the same kind, during which PID gets SIGTERM: each call that had begun is answered, and after the first refusal none begins
import http from 'node:http';
import { readFileSync } from 'node:fs';

const [url, mode, seconds = '5', pid] = process.argv.slice(2);
const target = new URL(url);
const MODERN = '2026-07-28';
const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
const counts = {}, wrong = [], waits = [];
let next = 0;

// A call with begins() sends its body after 100 Continue, and begins is called then: the server has admitted the call, or is refusing it.
function send(method, params, { begins, ...own } = {}) {
  const id = `r${next++}`;
  const meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} };
  const body = JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } });
  const name = params.name ?? params.uri;
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': MODERN, 'Mcp-Method': method,
    Authorization: `Bearer ${process.env.MCP_BEARER_TOKEN}`, ...(name ? { 'Mcp-Name': name } : {}), ...(begins ? { Expect: '100-continue' } : {}) };
  return new Promise(done => {
    const sent = performance.now();
    let begun = !begins;
    const end = answer => { done({ sent, begun, ...answer }); if (!begun) request.destroy(); };
    const request = http.request(target, { method: 'POST', headers, agent, ...own }, response => {
      let text = '';
      response.setEncoding('utf8').on('data', d => { text += d; }).on('error', error => end({ error }))
        .on('end', () => end({ id, status: response.statusCode, retry: response.headers['retry-after'], text, took: performance.now() - sent }));
    });
    request.on('error', error => end({ error }));
    if (begins) request.on('continue', () => { begun = begins(); request.end(body); }).flushHeaders();
    else request.end(body);
  });
}

function result(answer) {
  try {
    const data = /^data:(.*)$/m.exec(answer.text)?.[1] ?? answer.text;
    const message = JSON.parse(data);
    return message.id === answer.id ? message.result : undefined;
  } catch { return undefined; }
}

// What is asked, and whether a result is the right one.
const kinds = [
  ['tools/list', () => ({}), r => r.tools?.some(t => t.name === 'fetch_url')],
  ['resources/read', () => ({ uri: 'resource://about' }), r => JSON.parse(r.contents[0].text).version === '0.1.0'],
  ['resources/read', () => ({ uri: 'file:///hello.txt' }), r => JSON.parse(r.contents[0].text).text.includes('Files in this folder')],
  ['prompts/get', n => ({ name: 'code_review', arguments: { code: `code ${n}` } }), (r, n) => r.messages[1].content.text.endsWith(`code ${n}`)],
  ['tools/call', n => ({ name: 'fetch_url', arguments: { url: `http://127.0.0.1/${n}` } }), r => r.isError && r.content[0].text.includes('not public')],
  ['tools/call', () => ({ name: 'fetch_url', arguments: { url: 5 } }), r => r.isError],
];
// An address that IANA has given to nobody: it is tried three times, with 0.6 s in between, or until the time is over.
const slow = own => send('tools/call', { name: 'fetch_url', arguments: { url: 'http://[2d00::1]/', timeout_seconds: 1 } }, own);
const slowRight = r => r?.isError && /fetch_url|no answer within 1 s|2d00::1/.test(r.content[0].text);

function count(answer, right) {
  const key = answer.error ? `error ${answer.error.code}` : answer.status;
  counts[key] = (counts[key] ?? 0) + 1;
  if (answer.status === 200 && !right) wrong.push(answer.text);
  if ((answer.status === 429 || answer.status === 503) && !(answer.retry >= 1)) wrong.push(`${answer.status} without Retry-After`);
  if (![200, 429, 503].includes(answer.status) && !answer.error) wrong.push(`${answer.status} ${answer.text}`);
  if (answer.status === 200) waits.push(answer.took);
}

const resident = () => pid ? +/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1] / 1024 : 0;
const modes = {
  async rate() {
    const end = performance.now() + seconds * 1000, before = resident();
    await Promise.all(Array.from({ length: 20 }, async () => {
      for (let n = 0; performance.now() < end; n++) {
        const [method, params, right] = kinds[next % kinds.length];
        const answer = await send(method, params(n)), got = result(answer);
        let ok = false;
        try { ok = got !== undefined && right(got, n); } catch { /* not the right one */ }
        count(answer, ok);
        if (answer.error) wrong.push(`no answer: ${answer.error.code}`);
      }
    }));
    for (const want of [200, 429]) if (!counts[want]) wrong.push(`no ${want}`);
    if (pid) counts.memory = `${before.toFixed(0)} to ${resident().toFixed(0)} MB`;
  },
  async overload() {
    const answers = await Promise.all(Array.from({ length: 1300 }, () => slow({ agent: false })));
    for (const answer of answers) { count(answer, slowRight(result(answer))); if (answer.error) wrong.push(`no answer: ${answer.error.code}`); }
    if (counts[200] < 1100 || !counts[503]) wrong.push('want 1,100 results, and 503 beyond');
  },
  // SIGTERM comes when the hundredth call of 60 workers begins. A call that is on its way to the server then may be refused, or reset.
  async shutdown() {
    let begun = 0, missing = 0, refused = Infinity;
    const begins = () => {
      if (begun >= 100) return false;
      if (++begun === 100) process.kill(+pid, 'SIGTERM');
      return true;
    };
    await Promise.all(Array.from({ length: 60 }, async () => {
      for (;;) {
        const answer = await slow({ agent: false, begins });
        count(answer, slowRight(result(answer)));
        if (answer.begun && answer.status !== 200) missing++;
        if (answer.sent > refused && answer.status === 200) wrong.push('accepted after another was refused');
        if (answer.status !== 200) { refused = Math.min(refused, performance.now()); return; }
      }
    }));
    if (missing || begun < 100) wrong.push(`${missing} of ${begun} calls that had begun were not answered; want 0 of 100`);
    counts.begun = begun;
  },
};
await modes[mode]();
waits.sort((a, b) => a - b);
const at = q => waits.length ? +waits[Math.min(waits.length - 1, Math.floor(q * waits.length))].toFixed(1) : 0;
console.log(JSON.stringify({ mode, ...counts, wrong: wrong.length, p50_ms: at(0.5), p99_ms: at(0.99) }));
for (const text of wrong.slice(0, 5)) console.error(text.slice(0, 500));
process.exit(wrong.length ? 1 : 0);
