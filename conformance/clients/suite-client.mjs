#!/usr/bin/env node
// suite-client.mjs URL      a client for the official suite's client mode: it uses all that the suite's mock server offers.
//   SUITE_CLIENT     v2-modern-http (default), v2-legacy-http, v1-http, or with -sse or -stdio at the end
//   SUITE_DRAGOMAN   a binary to start in front of URL for this one run; without it the client connects to the mock itself
//   SUITE_ERA        the era of the mock in Dragoman's configuration; without it Dragoman probes
// Failed calls are printed; the suite judges the requests.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const url = process.argv[2];
const kind = process.env.SUITE_CLIENT || 'v2-modern-http';
const [, sdk, mode, wire] = /^(v[12])(?:-(modern|legacy))?-(http|sse|stdio)$/.exec(kind);
const dragoman = process.env.SUITE_DRAGOMAN;
const upstream = [...(process.env.SUITE_ERA ? ['--era', process.env.SUITE_ERA] : []), url];
// The suite may say which calls it wants, with which arguments.
const wanted = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}').toolCalls;

/** Returns a value that fits a schema. The argument `schema` of a tool gets the inputSchema of another tool. */
function fitting(name, schema, others) {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (name === 'schema') return others.find(t => !t.inputSchema.properties?.schema)?.inputSchema ?? {};
  const kinds = { string: 'word', number: 1.5, integer: 3, boolean: true, array: [], object: {}, null: null };
  return kinds[[schema.type].flat()[0]] ?? 'word';
}
const filled = (properties, names, others = []) => Object.fromEntries(names.map(n => [n, fitting(n, properties[n] ?? {}, others)]));

// Fields with defaults are left out of the answer: the SDK must fill them in (SEP-1034), which the suite judges.
const elicit = ({ requestedSchema: { properties } }) =>
  ({ action: 'accept', content: filled(properties, Object.keys(properties).filter(n => properties[n].default === undefined)) });
const sample = () => ({ role: 'assistant', model: 'parrot', stopReason: 'endTurn', content: { type: 'text', text: 'word' } });
const roots = () => ({ roots: [{ uri: 'file:///home/anna', name: 'anna' }] });

const INFO = { name: 'suite-client', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} };

async function clientV2() {
  const { Client, SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode: mode === 'legacy' ? 'legacy' : { pin: '2026-07-28' } } });
  client.setRequestHandler('elicitation/create', r => elicit(r.params));
  client.setRequestHandler('sampling/createMessage', sample);
  client.setRequestHandler('roots/list', roots);
  return { client, http: StreamableHTTPClientTransport, sse: SSEClientTransport, stdio: StdioClientTransport };
}

async function clientV1() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client(INFO, { capabilities: CAPABILITIES });
  client.setRequestHandler(types.ElicitRequestSchema, r => elicit(r.params));
  client.setRequestHandler(types.CreateMessageRequestSchema, sample);
  client.setRequestHandler(types.ListRootsRequestSchema, roots);
  return { client, http: StreamableHTTPClientTransport, sse: SSEClientTransport, stdio: StdioClientTransport };
}

/**
 * Starts Dragoman in front of URL; resolves to { url, stop }. Dragoman chooses its port itself and prints it: a port that was free a
 * moment ago may belong to another scenario now.
 */
async function start() {
  const child = spawn(dragoman, ['serve', '--listen', '127.0.0.1:0', '--admin', 'off', '--log-format', 'json', ...upstream], { stdio: ['ignore', 'inherit', 'pipe'] });
  const ended = new Promise(resolve => child.on('exit', resolve));
  const where = new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on('line', line => {
      console.error(line);
      if (line.startsWith('{') && JSON.parse(line).message === 'listening') resolve(JSON.parse(line));
    }).on('close', () => reject(new Error('dragoman ended before it listened')));
  });
  const { mcp, sse } = await where;
  return { url: wire === 'sse' ? sse : mcp, stop: async () => { child.kill('SIGTERM'); await ended; } };
}

async function attempt(what, f) {
  try {
    return await f();
  } catch (error) {
    console.error(`${what}: ${error.message}`);
    return undefined;
  }
}

/** Uses the tools, a prompt and a resource of the server. */
async function use(client) {
  const can = client.getServerCapabilities() ?? {};
  if (can.tools) {
    const tools = (await attempt('tools/list', () => client.listTools()))?.tools ?? [];
    const made = t => ({ name: t.name, arguments: filled(t.inputSchema.properties ?? {}, t.inputSchema.required ?? [], tools.filter(o => o !== t)) });
    for (const call of wanted ?? tools.map(made)) await attempt(`tools/call ${call.name}`, () => client.callTool(call));
  }
  if (can.prompts) {
    const prompt = (await attempt('prompts/list', () => client.listPrompts()))?.prompts[0];
    const args = Object.fromEntries((prompt?.arguments ?? []).map(a => [a.name, 'word']));
    if (prompt) await attempt('prompts/get', () => client.getPrompt({ name: prompt.name, arguments: args }));
  }
  if (can.resources) {
    const resource = (await attempt('resources/list', () => client.listResources()))?.resources[0];
    if (resource) await attempt('resources/read', () => client.readResource({ uri: resource.uri }));
  }
}

const made = await (sdk === 'v1' ? clientV1() : clientV2());
const proxy = dragoman && wire !== 'stdio' ? await start() : undefined;
try {
  const target = new URL(proxy?.url ?? url);
  const transport = wire === 'stdio' ? new made.stdio({ command: dragoman, args: ['stdio', ...upstream], stderr: 'inherit' }) : new made[wire](target);
  await made.client.connect(transport);
  await use(made.client);
  await made.client.close();
} finally {
  await proxy?.stop();
}
process.exit(0);
