#!/usr/bin/env node
// The tools, prompts and resources that both suites call by name, on the TypeScript SDK v1, written as its users write: McpServer,
// zod, and the SDK's own transport over HTTP.
//
//   ts1.mjs [--stateless] --port N
//
// --stateless makes a server for each request and gives out no session ids, so nothing can be pushed outside a request.
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { parseArgs } from 'node:util';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import * as z from 'zod/v4';
import { embedded, fromUser, image, pause, PIXELS, result, sound } from '../../fixtures/content.mjs';

const WATCHED = 'test://watched-resource';
const { values } = parseArgs({ options: { port: { type: 'string', default: '0' }, stateless: { type: 'boolean', default: false } } });

function sayTools(mcp) {
  mcp.registerTool('test_simple_text', { description: 'A line of text' }, () => result('This is a simple text response for testing.'));
  mcp.registerTool('test_image_content', { description: 'An image' }, () => result(image()));
  mcp.registerTool('test_audio_content', { description: 'A sound' }, () => result(sound()));
  mcp.registerTool('test_embedded_resource', {}, () => result(embedded('test://embedded-resource', 'text/plain', 'An embedded resource.')));
  mcp.registerTool('test_multiple_content_types', {}, () =>
    result('Three kinds:', image(), embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')));
  mcp.registerTool('test_error_handling', {}, () => { throw new Error('This tool intentionally returns an error for testing'); });
  mcp.registerTool('echo', { inputSchema: { message: z.string() } }, ({ message }) => result(`Echo: ${message}`));
  mcp.registerTool('add', { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } }, ({ a, b }) =>
    ({ ...result(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }));
}

function flowTools(mcp) {
  mcp.registerTool('test_tool_with_logging', {}, async extra => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await mcp.server.sendLoggingMessage({ level: 'info', data }, extra.sessionId);
      await pause(50);
    }
    return result('Three lines were logged.');
  });
  mcp.registerTool('test_tool_with_progress', {}, async extra => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      await pause(50);
    }
    return result('All of it is done.');
  });
  mcp.registerTool('slow', { inputSchema: { ms: z.number() } }, async ({ ms }, extra) => { await pause(ms, extra.signal); return result(`waited ${ms} ms`); });
  const sometimes = mcp.registerTool('test_sometimes', {}, () => result('now'));
  sometimes.disable();
  mcp.registerTool('test_trigger_tool_change', {}, () => {
    if (sometimes.enabled) sometimes.disable(); else sometimes.enable();
    return result('changed');
  });
}

/** Tools that ask the client, without a look at what it has declared: that is left to the SDK. */
function askingTools(mcp) {
  const form = (message, properties, required) => mcp.server.elicitInput({ message, requestedSchema: { type: 'object', properties, ...(required && { required }) } });
  const told = answer => result(`action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`);
  const STRING = { type: 'string' };
  mcp.registerTool('test_elicitation', { inputSchema: { message: z.string() } }, async ({ message }) =>
    told(await form(message, { username: STRING, email: STRING }, ['username', 'email'])));
  mcp.registerTool('test_elicitation_sep1034_defaults', {}, async () => told(await form('Defaults', {
    name: { ...STRING, default: 'John Doe' }, age: { type: 'integer', default: 30 }, score: { type: 'number', default: 95.5 },
    status: { ...STRING, enum: ['active', 'inactive', 'pending'], default: 'active' }, verified: { type: 'boolean', default: true },
  })));
  const options = ['option1', 'option2', 'option3'];
  const titled = [['value1', 'First'], ['value2', 'Second'], ['value3', 'Third']].map(([value, title]) => ({ const: value, title }));
  mcp.registerTool('test_elicitation_sep1330_enums', {}, async () => told(await form('Choices', {
    untitledSingle: { ...STRING, enum: options }, titledSingle: { ...STRING, oneOf: titled },
    legacyEnum: { ...STRING, enum: ['opt1', 'opt2'], enumNames: ['Option One', 'Option Two'] },
    untitledMulti: { type: 'array', items: { ...STRING, enum: options } }, titledMulti: { type: 'array', items: { anyOf: titled } },
  })));
  mcp.registerTool('test_sampling', { inputSchema: { prompt: z.string() } }, async ({ prompt }) => {
    const answer = await mcp.server.createMessage({ messages: [fromUser(prompt)], maxTokens: 100 });
    return result(`LLM response: ${answer.content.text}`);
  });
}

function documents(mcp) {
  const text = (uri, body, mimeType = 'text/plain') => ({ contents: [{ uri: uri.href ?? uri, mimeType, text: body }] });
  mcp.registerResource('static-text', 'test://static-text', { mimeType: 'text/plain' }, uri => text(uri, 'The content of the static text resource.'));
  mcp.registerResource('static-binary', 'test://static-binary', { mimeType: 'image/png' }, uri =>
    ({ contents: [{ uri: uri.href, mimeType: 'image/png', blob: PIXELS }] }));
  mcp.registerResource('watched', WATCHED, { mimeType: 'text/plain' }, uri => text(uri, 'watched'));
  mcp.registerResource('template', new ResourceTemplate('test://template/{id}/data', { list: undefined }), { mimeType: 'application/json' }, (uri, { id }) =>
    text(uri, JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }), 'application/json'));
  mcp.server.registerCapabilities({ resources: { subscribe: true } });
  const watched = new Set();
  mcp.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => { watched.add(params.uri); return {}; });
  mcp.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => { watched.delete(params.uri); return {}; });
  mcp.registerTool('test_trigger_resource_update', {}, async () => {
    if (watched.has(WATCHED)) await mcp.server.sendResourceUpdated({ uri: WATCHED });
    return result('changed');
  });
  const says = (...content) => ({ messages: content.map(fromUser) });
  const starting = word => ['paris', 'park', 'party'].filter(x => x.startsWith(word));
  mcp.registerPrompt('test_simple_prompt', {}, () => says('This is a simple prompt for testing.'));
  mcp.registerPrompt('test_prompt_with_arguments', { argsSchema: { arg1: completable(z.string(), starting), arg2: z.string() } }, ({ arg1, arg2 }) =>
    says(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`));
  mcp.registerPrompt('test_prompt_with_embedded_resource', { argsSchema: { resourceUri: z.string() } }, ({ resourceUri }) =>
    says(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.'), 'Please process the embedded resource above.'));
  mcp.registerPrompt('test_prompt_with_image', {}, () => says(image(), 'Please analyze the image above.'));
}

function build() {
  const mcp = new McpServer({ name: 'beside-ts1', version: '1.0.0' }, { capabilities: { logging: {} } });
  for (const add of [sayTools, flowTools, askingTools, documents]) add(mcp);
  return mcp;
}

const guard = port => ({ enableDnsRebindingProtection: true, allowedHosts: [`127.0.0.1:${port}`, `localhost:${port}`], allowedOrigins: [`http://127.0.0.1:${port}`, `http://localhost:${port}`] });

const sessions = new Map();
async function transportFor(req, port) {
  const id = req.headers['mcp-session-id'];
  if (values.stateless || id === undefined && req.method === 'POST') {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: values.stateless ? undefined : randomUUID, onsessioninitialized: made => sessions.set(made, transport), ...guard(port),
    });
    const mcp = build();
    transport.onclose = () => { if (transport.sessionId) sessions.delete(transport.sessionId); };
    await mcp.connect(transport);
    return transport;
  }
  return sessions.get(id);
}

const server = http.createServer(async (req, res) => {
  const { port } = server.address();
  const transport = await transportFor(req, port);
  if (!transport) {
    res.writeHead(req.headers['mcp-session-id'] === undefined ? 400 : 404, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
    return;
  }
  if (values.stateless) res.on('close', () => transport.close());
  await transport.handleRequest(req, res);
});
server.listen(Number(values.port), '127.0.0.1');
