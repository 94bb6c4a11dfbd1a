#!/usr/bin/env node
// bad.mjs MANNER: a legacy server over stdio whose tool `act` makes it exit (killed), stop for ever (hung), take two seconds (slow), or answer
// with another id, with half a message and not at all (lying).
import { createInterface } from 'node:readline';

const manner = process.argv[2];
const send = message => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: manner, version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'act', inputSchema: { type: 'object' } }] }),
  ping: () => ({}),
};
let calls = 0;

const acts = {
  killed: () => process.exit(1),
  hung: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  slow: id => setTimeout(() => send({ id, result: { content: [] } }), 2000),
  lying: () => [() => send({ id: 'another', result: { content: [] } }), () => process.stdout.write('{"jsonrpc":"2.0","id":1,"resu\n'), () => {}][calls++ % 3](),
};

createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'tools/call') acts[manner](id);
  else if (id !== undefined && results[method]) send({ id, result: results[method](params) });
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'method not found' } });
});
