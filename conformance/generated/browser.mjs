#!/usr/bin/env node
// browser.mjs DRAGOMAN CHROMIUM     generated TypeScript in a real browser, at a Dragoman of another origin: a result, progress, a question, an error.
// Compiles what is generated for `dragoman demo`, and opens a page that makes the calls and reports. Exit 0 if the report is the expected one.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const [binary, chromium] = process.argv.slice(2);
const TIME = 60_000; // ms until the page has reported

const page = url => `<!doctype html><meta charset="utf-8"><title>a page</title><script type="module">
import { configure, ToolError } from './runtime.js';
import { testErrorHandling } from './servers/demo/testErrorHandling.js';
import { testSimpleText } from './servers/demo/testSimpleText.js';
import { testToolWithProgress } from './servers/demo/testToolWithProgress.js';
import { testElicitation } from './servers/demo/testElicitation.js';
configure({ url: '${url}' });
const report = {};
try {
  report.text = (await testSimpleText({})).text;
  report.progress = [];
  await testToolWithProgress({}, { onProgress: p => report.progress.push(p.progress) });
  await testElicitation({ message: 'who?' }, { onQuestion: all => { report.asked = Object.values(all).map(q => q.params.message); return Object.fromEntries(Object.keys(all).map(k => [k, { action: 'decline' }])); } });
  await testErrorHandling({});
} catch (error) {
  report.error = error instanceof ToolError ? error.code : String(error);
}
await fetch('/report', { method: 'POST', body: JSON.stringify(report) });
</script>`;

const dir = mkdtempSync(path.join(tmpdir(), 'dragoman-browser-'));
const children = [];
const start = (...args) => { const child = spawn(...args); children.push(child); return child; };
let url;
let reported;
const site = createServer(async (request, response) => {
  if (request.method === 'POST') {
    let body = '';
    for await (const chunk of request) body += chunk;
    reported(JSON.parse(body));
    return response.end();
  }
  if (request.url === '/') return response.setHeader('content-type', 'text/html').end(page(url));
  try {
    response.setHeader('content-type', 'text/javascript').end(readFileSync(path.join(dir, 'js', path.normalize(request.url))));
  } catch {
    response.writeHead(404).end();
  }
}).listen(0, '127.0.0.1');
try {
  await once(site, 'listening');
  const origin = `http://127.0.0.1:${site.address().port}`;
  execFileSync(binary, ['generate', '--name', 'demo', '--target', 'typescript', '--out', dir, '--', binary, 'demo'], { stdio: 'ignore', timeout: TIME });
  execFileSync(path.join(HERE, 'node_modules/.bin/tsc'), ['-p', path.join(dir, 'typescript'), '--outDir', path.join(dir, 'js')], { stdio: 'inherit', timeout: TIME });
  const dragoman = start(binary, ['serve', '--listen', '127.0.0.1:0', '--admin', 'off', '--log-format', 'json', '--', binary, 'demo'],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, DRAGOMAN_SECURITY_ALLOWED_ORIGINS: origin } });
  let said = '';
  url = await new Promise((done, failed) => {
    dragoman.stderr.on('data', chunk => { const listening = /"mcp":\[?"([^"]+)\/mcp"/.exec(said += chunk); if (listening) done(listening[1]); });
    dragoman.on('exit', () => failed(new Error(said)));
  });
  const report = new Promise((done, failed) => {
    reported = done;
    setTimeout(() => failed(new Error(`the page has not reported in ${TIME / 1000} s`)), TIME).unref();
  });
  start(chromium, ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${path.join(dir, 'profile')}`, origin], { stdio: 'ignore' });
  assert.deepEqual(await report, { text: 'This is a simple text response for testing.', progress: [0, 50, 100], asked: ['who?'], error: 'EXECUTION_ERROR' });
  console.log('a result, progress, a question, an error');
} finally {
  site.closeAllConnections();
  site.close();
  await Promise.all(children.map(child => { const ended = once(child, 'exit'); child.kill(); return ended; }));
  rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
