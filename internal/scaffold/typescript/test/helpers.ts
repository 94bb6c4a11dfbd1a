// What tests share: configurations, servers, and clients of one process.
import assert from 'node:assert/strict';
import net from 'node:net';
import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';
import { MCPConfiguration } from '../src/config.js';
import { Guard } from '../src/guard.js';
import * as http from '../src/http.js';
import { Server } from '../src/server.js';

export const TOKEN = 'a-token-of-tests-only';
export const KEY = 'a-key-of-tests-only';
export const BEARER = { Authorization: `Bearer ${TOKEN}` };

export function configured(changes: Record<string, unknown> = {}): MCPConfiguration {
  return MCPConfiguration.parse({
    server_name: 'tested',
    server_version: '1.2.3',
    transport_type: 'HTTP',
    http_host: '127.0.0.1',
    http_port: 8000,
    bearer_token: TOKEN,
    api_key: KEY,
    ...changes,
  });
}

/** A server with one tool that echoes a number. */
export function newServer(changes: Record<string, unknown> = {}): Server {
  const server = new Server(configured(changes));
  server.tool({
    name: 'echo',
    description: 'Echo a number.',
    inputSchema: z.object({ number: z.int() }),
    threadSafe: true,
    handler: ({ number }) => Promise.resolve(String(number)),
  });
  return server;
}

/** Something that happens once. */
export class Event {
  readonly happened: Promise<void>;
  set: () => void = () => undefined;

  constructor() {
    this.happened = new Promise((resolve) => {
      this.set = resolve;
    });
  }
}

/** Add a tool "wait" that begins, and ends when it is released. */
export function waiting(server: Server): { begun: Event; release: Event } {
  const held = { begun: new Event(), release: new Event() };
  server.tool({
    name: 'wait',
    description: 'Wait.',
    inputSchema: z.object({}),
    threadSafe: true,
    handler: async () => {
      held.begun.set();
      await held.release.happened;
      return 'waited';
    },
  });
  return held;
}

/** Run a test with the SDK's own client at a server, without a transport. */
export async function connected(server: Server, use: (client: Client) => Promise<void>) {
  if (server.lifecycle.state === 'initializing') server.start();
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.build().connect(new Guard(server, theirs));
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(ours);
  await use(client);
  await client.close();
}

/** The text of a result. */
export function said(result: { content: unknown }): string {
  const [content] = result.content as { text: string }[];
  assert.ok(content);
  return content.text;
}

export async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

export interface Serving {
  url: string;
  stop: AbortController;
  ended: Promise<void>;
}

/** Run a test at a server that listens, and stop the server. */
export async function listening(
  server: (changes: Record<string, unknown>) => Server,
  use: (serving: Serving, made: Server) => Promise<void>,
  changes: Record<string, unknown> = {},
  drainSeconds = 30,
): Promise<void> {
  const port = await freePort();
  const made = server({ http_port: port, rate_limit_burst: 1000, ...changes });
  const stop = new AbortController();
  const ready = new Event();
  made.lifecycle.observe(ready.set);
  const ended = http.serve(made, stop.signal, drainSeconds);
  await Promise.race([ready.happened, ended]);
  try {
    await use({ url: `http://127.0.0.1:${port}`, stop, ended }, made);
  } finally {
    stop.abort();
    await ended;
  }
}

export function request(method: string, params: Record<string, unknown> = {}) {
  return { jsonrpc: '2.0', id: 1, method, params };
}

export function call(name: string, args: Record<string, unknown> = {}) {
  return request('tools/call', { name, arguments: args });
}

/** POST a message to /mcp/METHOD, or where path says. */
export async function post(
  url: string,
  message: unknown,
  headers: Record<string, string> = BEARER,
  path?: string,
): Promise<{ status: number; headers: Headers; text: string; json: Answer }> {
  const method = (message as { method?: string } | null)?.method ?? 'none';
  const response = await fetch(url + (path ?? `/mcp/${method}`), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  });
  const text = await response.text();
  const data = /^data: ?(.*)$/m.exec(text)?.[1] ?? text;
  const json = (data.startsWith('{') ? JSON.parse(data) : {}) as Answer;
  return { status: response.status, headers: response.headers, text, json };
}

export interface Answer {
  result?: Record<string, unknown> & { content: unknown };
  error?: { code: number; message: string };
}
