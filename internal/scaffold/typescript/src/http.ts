// MCP over HTTP: authentication and limits around the handlers of the SDK.
//
// /mcp is streamable HTTP of all revisions, /mcp/sse and /messages are HTTP+SSE, and POST
// /mcp/METHOD takes one JSON-RPC request. The SDK has no limits of this kind, so the door before it
// is here.
/* eslint-disable @typescript-eslint/no-deprecated -- HTTP+SSE is, and clients of it still exist */
import { createHash, timingSafeEqual } from 'node:crypto';
import http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  validateHostHeader,
  validateOriginHeader,
} from '@modelcontextprotocol/server';
import { SSEServerTransport } from '@modelcontextprotocol/server-legacy/sse';
import { ConfigurationError, message as said } from './config.js';
import { Guard } from './guard.js';
import {
  BODY_BYTES,
  OPEN_STREAMS,
  OverloadedError,
  RateLimiter,
  SHUTDOWN_SECONDS,
  current,
} from './limits.js';
import type { Ticket } from './limits.js';
import { RATE_LIMITED, UNAUTHORIZED, UNAVAILABLE } from './server.js';
import type { Server } from './server.js';
import { within } from './stdio.js';

const MODERN = '2026-07-28';
const STREAM_SECONDS = 2; // for streams to end once requests have
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const NAMED = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/** An answer to a request that is not served, with an error of JSON-RPC. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: number,
    text: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(text);
  }
}

const unavailable = (text: string) => new Refusal(503, UNAVAILABLE, text, { 'Retry-After': '1' });

/** Admits requests: authentication, host, state, rate, slots and memory; then finds their path. */
export class Door {
  private readonly rate: RateLimiter;
  private readonly keys: [string, Buffer][];
  private readonly sessions = new Map<string, { transport: SSEServerTransport; caller: string }>();
  private readonly handler;
  private readonly node;
  private streams = 0;

  constructor(private readonly server: Server) {
    const { config } = server;
    this.rate = new RateLimiter(config.rate_limit_per_minute, config.rate_limit_burst);
    const found: [string, string | undefined][] = [
      ['bearer', config.bearer_token],
      ['api-key', config.api_key],
    ];
    this.keys = found.flatMap(([kind, text]) => (text === undefined ? [] : [[kind, digest(text)]]));
    this.handler = createMcpHandler(() => server.build(), {
      legacy: 'stateless',
      maxSubscriptions: OPEN_STREAMS,
    });
    this.node = toNodeHandler(this.handler);
  }

  /** Serve one request. */
  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      if (!this.cors(req, res)) await this.admit(req, res);
    } catch (error) {
      const refusal =
        error instanceof Refusal
          ? error
          : error instanceof OverloadedError
            ? unavailable(`overloaded: ${error.message}`)
            : undefined;
      if (!refusal) this.server.log(String((error as Error).stack), 'ERROR');
      if (res.headersSent) res.destroy();
      else refuse(res, refusal ?? new Refusal(500, -32603, 'the server has failed'));
    }
  }

  /** End the streams that are open. */
  async close(): Promise<void> {
    await this.handler.close();
    for (const { transport } of this.sessions.values()) await transport.close();
  }

  /** Say which pages may read the answer, and answer a preflight, which has no credentials. */
  private cors(req: IncomingMessage, res: ServerResponse): boolean {
    const { origin } = req.headers;
    if (origin === undefined || !this.server.config.cors_origins.includes(origin)) return false;
    res.setHeader('Access-Control-Allow-Origin', origin);
    res.setHeader('Vary', 'Origin');
    res.setHeader('Access-Control-Expose-Headers', 'Retry-After, WWW-Authenticate');
    if (req.method !== 'OPTIONS') return false;
    res.setHeader('Access-Control-Allow-Methods', 'GET, POST, DELETE');
    const asked = req.headers['access-control-request-headers'];
    if (asked !== undefined) res.setHeader('Access-Control-Allow-Headers', asked);
    res.writeHead(204).end();
    return true;
  }

  private async admit(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const caller = this.caller(req);
    if (caller === undefined) {
      const text = 'fix: send Authorization: Bearer TOKEN or X-API-Key: KEY';
      throw new Refusal(401, UNAUTHORIZED, text, { 'WWW-Authenticate': 'Bearer' });
    }
    this.checkNames(req);
    const { state } = this.server.lifecycle;
    if (state !== 'ready') throw unavailable(`the server is ${state}`);
    const wait = this.rate.take(caller);
    if (wait > 0) {
      const text = `more than ${this.rate.perMinute} requests a minute`;
      throw new Refusal(429, RATE_LIMITED, text, { 'Retry-After': String(wait) });
    }
    const path = (req.url ?? '').replace(/\?.*$/s, '');
    if (req.method === 'GET' || req.headers['mcp-method'] === 'subscriptions/listen') {
      await this.stream(path, caller, req, res);
      return;
    }
    const ticket = await this.server.gate.enter();
    res.once('close', () => {
      ticket.release();
    });
    if (res.destroyed || req.destroyed) ticket.release();
    else await this.request(path, caller, ticket, req, res);
  }

  /** Return whose credential a request has. All are compared, each in constant time. */
  private caller(req: IncomingMessage): string | undefined {
    const [, token = ''] = /^bearer (.*)$/i.exec(req.headers.authorization ?? '') ?? [];
    const key = String(req.headers['x-api-key'] ?? '');
    let found: string | undefined;
    for (const [kind, want] of this.keys) {
      if (timingSafeEqual(digest(kind === 'bearer' ? token : key), want)) found = kind;
    }
    return found;
  }

  /** The SDK's protection against DNS rebinding. */
  private checkNames(req: IncomingMessage): void {
    const { allowed_hosts, cors_origins, http_host = '' } = this.server.config;
    const hosts = [...localhostAllowedHostnames(), http_host, ...allowed_hosts];
    const host = validateHostHeader(req.headers.host, hosts);
    if (!host.ok) throw new Refusal(403, INVALID_REQUEST, host.message);
    const { origin } = req.headers;
    if (origin === undefined || cors_origins.includes(origin)) return;
    const allowed = validateOriginHeader(origin, localhostAllowedOrigins());
    if (!allowed.ok) throw new Refusal(403, INVALID_REQUEST, allowed.message);
  }

  private async stream(path: string, caller: string, req: IncomingMessage, res: ServerResponse) {
    if (this.streams >= OPEN_STREAMS) throw unavailable(`${OPEN_STREAMS} streams are open`);
    this.streams++;
    res.once('close', () => this.streams--);
    if (path === '/mcp') {
      await this.node(req, res);
    } else if (path === '/mcp/sse') {
      const transport = new SSEServerTransport('/messages', res);
      const { sessionId } = transport;
      this.sessions.set(sessionId, { transport, caller });
      res.once('close', () => this.sessions.delete(sessionId));
      await this.server.build().connect(new Guard(this.server, transport));
    } else {
      throw notFound();
    }
  }

  private async request(
    path: string,
    caller: string,
    ticket: Ticket,
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<void> {
    if (path === '/mcp' && req.method !== 'POST') {
      await this.node(req, res);
      return;
    }
    if (req.method !== 'POST' || !/^\/(mcp(\/.+)?|messages)$/.test(path)) throw notFound();
    const raw = await readBody(req, ticket);
    if (path === '/messages') {
      const id = new URL(req.url ?? '', 'http://localhost').searchParams.get('sessionId') ?? '';
      const session = this.sessions.get(id);
      if (session?.caller !== caller) throw notFound();
      ticket.release(); // the guard of the session has one for each message
      await session.transport.handlePostMessage(req, res, parse(raw));
      return;
    }
    const message = parse(raw);
    if (path !== '/mcp') modernise(path.slice('/mcp/'.length), message, req);
    await current.run(ticket, () => this.node(req, res, message));
  }
}

const notFound = () => new Refusal(404, INVALID_REQUEST, 'fix: README.md has the paths');
const digest = (text: string) => createHash('sha256').update(text).digest();

function refuse(res: ServerResponse, refusal: Refusal): void {
  const error = { code: refusal.code, message: refusal.message };
  // The rest of a body that was not read would otherwise be taken for the next request.
  const headers = { 'Content-Type': 'application/json', Connection: 'close', ...refusal.headers };
  res.writeHead(refusal.status, headers);
  res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }));
}

async function readBody(req: IncomingMessage, ticket: Ticket): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_BYTES) {
      throw new Refusal(413, INVALID_REQUEST, `a body has ${BODY_BYTES} bytes at most`);
    }
    ticket.hold(chunk.length);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(raw: string): unknown {
  try {
    return JSON.parse(raw);
  } catch {
    throw new Refusal(400, PARSE_ERROR, 'the body is not JSON');
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Make a JSON-RPC request to /mcp/METHOD one of revision 2026-07-28, without a session and without
 * MCP's headers. One that says its revision or session itself stays as it is.
 */
function modernise(method: string, message: unknown, req: IncomingMessage): void {
  if (!isObject(message) || message['method'] !== method) {
    const text = `fix: the body is a JSON-RPC request of method ${method}`;
    throw new Refusal(400, INVALID_REQUEST, text);
  }
  req.url = '/mcp';
  if (req.headers['mcp-protocol-version'] ?? req.headers['mcp-session-id']) return;
  const params = (message['params'] ??= {});
  if (!isObject(params)) return; // the SDK refuses it
  const meta = (params['_meta'] ??= {});
  if (isObject(meta)) {
    meta['io.modelcontextprotocol/protocolVersion'] ??= MODERN;
    meta['io.modelcontextprotocol/clientCapabilities'] ??= {};
  }
  req.headers['mcp-protocol-version'] = MODERN;
  req.headers['mcp-method'] = method;
  req.headers.accept = 'application/json, text/event-stream';
  const name = params[NAMED.get(method) ?? ''];
  if (typeof name === 'string') {
    const plain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(name) && !name.startsWith('=?');
    req.headers['mcp-name'] = plain ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`;
  }
}

/** Serve until stop, then let running requests finish while new ones get 503. */
export async function serve(
  server: Server,
  stop: AbortSignal,
  drainSeconds = SHUTDOWN_SECONDS,
): Promise<void> {
  const { http_host: host, http_port: port } = server.config;
  const door = new Door(server);
  const listener = http.createServer({ requestTimeout: SHUTDOWN_SECONDS * 1000 }, (req, res) => {
    void door.serve(req, res);
  });
  listener.maxConnections = 2000;
  await new Promise<void>((listening, failed) => {
    listener.once('error', (error) => {
      const text = `http_host, http_port: ${said(error)}; fix: choose another address`;
      failed(new ConfigurationError(text));
    });
    listener.listen(port, host, listening);
  });
  server.start();
  server.log(`listening at http://${String(host)}:${String(port)}/mcp`);
  await new Promise<void>((done) => {
    stop.addEventListener('abort', () => {
      done();
    });
    if (stop.aborted) done();
  });
  server.lifecycle.to('shutting_down');
  if (!(await within(drainSeconds, server.gate.idle()))) {
    server.log(`${server.gate.accepted} requests are cut off`, 'WARNING');
  }
  const closed = new Promise<void>((done) => {
    listener.close(() => {
      done();
    });
  });
  await door.close();
  listener.closeIdleConnections();
  if (!(await within(STREAM_SECONDS, closed))) listener.closeAllConnections();
  await closed;
  server.lifecycle.to('stopped');
}
