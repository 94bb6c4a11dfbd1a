#!/usr/bin/env node
// The control: takes Dragoman's command line and passes everything through unchanged, so that all failures behind it are those of
// the tests.
//
//   passthrough.mjs serve --listen HOST:PORT [--admin off] URL     every path of the listener is that path at URL's host
//   passthrough.mjs stdio -- COMMAND [ARG…]                        the command's own stdin and stdout
//
// BREAK=buffer (answers are delayed until they are complete) and BREAK=deaf (the upstream does not learn that a client has
// disconnected) are faults that the tests must notice.
import { spawn } from 'node:child_process';
import http from 'node:http';

const argv = process.argv.slice(2);
const dashes = argv.indexOf('--');
const flag = name => (argv.includes(name) ? argv[argv.indexOf(name) + 1] : undefined);

function relay(req, res, upstream) {
  const onward = http.request({ host: upstream.hostname, port: upstream.port, method: req.method, path: req.url, headers: req.headers }, answer => {
    if (process.env.BREAK !== 'buffer') {
      res.writeHead(answer.statusCode, answer.headers);
      res.flushHeaders();
      answer.pipe(res);
      return;
    }
    const parts = [];
    answer.on('data', part => parts.push(part));
    answer.on('end', () => { res.writeHead(answer.statusCode, answer.headers); res.end(Buffer.concat(parts)); });
  });
  onward.on('error', error => {
    if (!res.headersSent) res.writeHead(502);
    res.end(error.message);
  });
  if (process.env.BREAK !== 'deaf') res.on('close', () => onward.destroy());
  req.pipe(onward);
}

function serve(listen, upstream) {
  const [host, port] = listen.split(':');
  http.createServer((req, res) => relay(req, res, upstream)).listen(Number(port), host);
}

function stdio([command, ...args]) {
  const child = spawn(command, args, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  child.on('exit', code => process.exit(code ?? 1));
  child.on('error', error => { console.error(error.message); process.exit(1); });
}

if (argv[0] === 'serve' && flag('--listen') && dashes < 0) serve(flag('--listen'), new URL(argv.at(-1)));
else if (argv[0] === 'stdio' && dashes > 0) stdio(argv.slice(dashes + 1));
else {
  console.error('passthrough: it cannot stand between HTTP and stdio');
  process.exit(2);
}
