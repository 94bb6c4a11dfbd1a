// The server: registers capabilities with the SDK, and applies the rules to each call.
//
// The SDK validates messages, speaks both eras of MCP and all transports. Here is what it leaves to
// servers: names across kinds, timeouts, retries, serial execution, sizes and the lifecycle.
import { setTimeout as sleep } from 'node:timers/promises';
import { McpServer, ProtocolError, ResourceTemplate } from '@modelcontextprotocol/server';
import type { CallToolResult } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';
import {
  CapabilityError,
  TransientError,
  checkPrompt,
  checkResource,
  checkTool,
  fill,
} from './capabilities.js';
import type { Prompt, Resource, Tool } from './capabilities.js';
import { message } from './config.js';
import type { Log, MCPConfiguration } from './config.js';
import { Lifecycle } from './lifecycle.js';
import { Gate, current } from './limits.js';

// Of the codes that JSON-RPC leaves to servers, -32000 to -32099.
export const TIMEOUT = -32001;
export const UNAVAILABLE = -32010;
export const TOO_LARGE = -32011;
export const UNAUTHORIZED = -32012;
export const RATE_LIMITED = -32013;
const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;

/** A failure that the model is told of. The text of any other error stays in the log. */
export class ToolError extends Error {}

/** A server of MCP. Register with tool(), resource() and prompt(), then serve it. */
export class Server {
  readonly tools = new Map<string, Tool>();
  readonly resources = new Map<string, Resource>();
  readonly prompts = new Map<string, Prompt>();
  private readonly kept = new Map<string, Promise<string | Uint8Array>>();
  private serial: Promise<unknown> = Promise.resolve();

  constructor(
    readonly config: MCPConfiguration,
    readonly gate = new Gate(),
    readonly lifecycle = new Lifecycle(),
    readonly log: Log = () => undefined,
  ) {}

  /** Become ready. Throws a CapabilityError if nothing is registered. */
  start(): void {
    if (this.tools.size + this.resources.size + this.prompts.size === 0) {
      throw new CapabilityError('no capability; fix: register a tool, a resource or a prompt');
    }
    this.lifecycle.to('ready');
  }

  tool<S extends z.ZodObject>(tool: Tool<S>): void {
    const any = tool as unknown as Tool; // the handler gets what the schema has validated
    checkTool(any);
    this.claim('tool', tool.name);
    this.tools.set(tool.name, any);
  }

  resource(resource: Resource): void {
    checkResource(resource);
    this.claim('resource', resource.name);
    this.resources.set(resource.name, resource);
  }

  prompt(prompt: Prompt): void {
    checkPrompt(prompt);
    this.claim('prompt', prompt.name);
    this.prompts.set(prompt.name, prompt);
  }

  private claim(kind: string, name: string): void {
    if (this.tools.has(name) || this.resources.has(name) || this.prompts.has(name)) {
      throw new CapabilityError(`${kind} ${name}: the name is taken; fix: choose another`);
    }
  }

  /** Return an instance of the SDK's server for one connection or request. */
  build(): McpServer {
    const { server_name: name, server_version: version } = this.config;
    const sdk = new McpServer({ name, version });
    for (const { name, description, inputSchema } of this.tools.values()) {
      sdk.registerTool(name, { description, inputSchema }, () => ({ content: [] })); // to be listed
    }
    if (this.tools.size > 0) {
      // The SDK's own handler makes a result of every error, which would then have no code.
      sdk.server.setRequestHandler('tools/call', ({ params }, ctx) =>
        this.callTool(params.name, params.arguments ?? {}, ctx.mcpReq.signal),
      );
    }
    for (const resource of this.resources.values()) {
      const { description, mimeType, uriPattern } = resource;
      const read = async (uri: URL, variables: Record<string, string>, signal: AbortSignal) => {
        const found = await this.readResource(resource, variables, signal);
        const content =
          typeof found === 'string'
            ? { text: found }
            : { blob: Buffer.from(found).toString('base64') };
        return this.measured({ contents: [{ uri: uri.href, mimeType, ...content }] });
      };
      if (resource.isStatic) {
        sdk.registerResource(resource.name, uriPattern, { description, mimeType }, (uri, ctx) =>
          read(uri, {}, ctx.mcpReq.signal),
        );
      } else {
        const template = new ResourceTemplate(uriPattern, { list: undefined });
        sdk.registerResource(
          resource.name,
          template,
          { description, mimeType },
          (uri, found, ctx) => read(uri, decoded(found), ctx.mcpReq.signal),
        );
      }
    }
    for (const prompt of this.prompts.values()) this.registerPrompt(sdk, prompt);
    return sdk;
  }

  private registerPrompt(sdk: McpServer, prompt: Prompt): void {
    const shape = Object.fromEntries(
      Object.entries(prompt.parameters).map(([key, spec]) => {
        const text = z.string().describe(spec.description);
        return [key, spec.default === undefined ? text : text.optional()];
      }),
    );
    const { description } = prompt;
    sdk.registerPrompt(
      prompt.name,
      { description, argsSchema: z.strictObject(shape) },
      (args, ctx) =>
        this.deadline(
          `prompt ${prompt.name}`,
          this.seconds(prompt, 'prompt_timeout'),
          ctx.mcpReq.signal,
          () => {
            try {
              const given = args as Record<string, string>;
              const messages = fill(prompt, given).map(({ role, text }) => ({
                role,
                content: { type: 'text' as const, text },
              }));
              return Promise.resolve(this.measured({ description, messages }));
            } catch (error) {
              throw error instanceof ProtocolError
                ? error
                : new ProtocolError(INVALID_PARAMS, `prompt ${prompt.name}: ${message(error)}`);
            }
          },
        ),
    );
  }

  private seconds(
    it: { timeout?: number },
    key: 'tool_timeout' | 'resource_timeout' | 'prompt_timeout',
  ): number {
    return it.timeout ?? this.config[key];
  }

  private async callTool(name: string, args: unknown, outer: AbortSignal): Promise<CallToolResult> {
    const tool = this.tools.get(name);
    if (!tool) throw new ProtocolError(INVALID_PARAMS, `unknown tool: ${name}`);
    const parsed = await tool.inputSchema.safeParseAsync(args);
    if (!parsed.success) {
      const [{ path, message: text } = { path: [], message: '' }] = parsed.error.issues;
      const where = path.join('/') || 'arguments';
      return failed(`invalid arguments of ${name}: ${where}: ${text.slice(0, 500)}`);
    }
    const run = () =>
      this.deadline(`tool ${name}`, this.seconds(tool, 'tool_timeout'), outer, (signal) =>
        this.retried(tool, () => tool.handler(parsed.data, signal), signal),
      );
    try {
      const found = await (tool.threadSafe ? run() : this.alone(run));
      const content = typeof found === 'string' ? [{ type: 'text' as const, text: found }] : found;
      return this.measured({ content });
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      const known = error instanceof ToolError || error instanceof TransientError;
      if (known) this.log(`tool ${name}: ${message(error)}`);
      else this.log(`tool ${name}: ${String((error as Error).stack)}`, 'ERROR');
      return failed(known ? message(error) : `the tool ${name} has failed`);
    }
  }

  private async readResource(
    resource: Resource,
    variables: Record<string, string>,
    caller: AbortSignal,
  ): Promise<string | Uint8Array> {
    // What is kept is kept for all: it goes on when the caller that was first has gone.
    const outer = resource.isStatic ? new AbortController().signal : caller;
    const run = () =>
      this.deadline(
        `resource ${resource.name}`,
        this.seconds(resource, 'resource_timeout'),
        outer,
        (signal) => resource.fetch(variables, signal),
      );
    try {
      if (!resource.isStatic) return await run();
      let kept = this.kept.get(resource.name);
      if (!kept) {
        kept = run();
        this.kept.set(resource.name, kept);
        kept.catch(() => this.kept.delete(resource.name));
      }
      return await kept;
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      this.log(`resource ${resource.name}: ${String((error as Error).stack)}`, 'ERROR');
      throw new ProtocolError(INTERNAL_ERROR, `the resource ${resource.name} has failed`);
    }
  }

  /** Run one after the other. */
  private alone<T>(run: () => Promise<T>): Promise<T> {
    const result = this.serial.then(run);
    this.serial = result.catch(() => undefined);
    return result;
  }

  private async retried<T>(tool: Tool, attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { attempts, delaySeconds } = tool.retry ?? { attempts: 1, delaySeconds: 0 };
    for (let number = 1; ; number++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof TransientError) || number >= attempts) throw error;
        this.log(`tool ${tool.name}: attempt ${number}: ${message(error)}`);
        await sleep(delaySeconds * 1000 * 2 ** (number - 1), undefined, { signal });
      }
    }
  }

  /**
   * Abort what runs after so many seconds, and throw an error of JSON-RPC. Code that does not wait
   * cannot be interrupted: it is judged once it has ended.
   */
  private async deadline<T>(
    what: string,
    seconds: number,
    outer: AbortSignal,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ours = new AbortController();
    const error = new ProtocolError(TIMEOUT, `${what} took longer than ${seconds} s`);
    let timer: NodeJS.Timeout | undefined;
    const end = performance.now() + seconds * 1000;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(error);
        ours.abort(error);
      }, seconds * 1000);
    });
    try {
      const result = await Promise.race([run(AbortSignal.any([outer, ours.signal])), late]);
      if (performance.now() > end) throw error;
      return result;
    } catch (thrown) {
      if (thrown === error) this.log(error.message, 'WARNING');
      throw thrown;
    } finally {
      clearTimeout(timer);
    }
  }

  private measured<T>(result: T): T {
    const size = Buffer.byteLength(JSON.stringify(result));
    const most = this.config.max_response_size_mb;
    if (size > most * 1024 * 1024) {
      throw new ProtocolError(
        TOO_LARGE,
        `the response has ${size} bytes; max_response_size_mb is ${most}`,
      );
    }
    try {
      current.getStore()?.hold(size);
    } catch (error) {
      throw new ProtocolError(UNAVAILABLE, `overloaded: ${message(error)}`);
    }
    return result;
  }
}

/** The result of a tool that has failed. */
function failed(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

/** Variables as they were before a client encoded them. The SDK matches, and leaves them encoded. */
function decoded(found: Record<string, string | string[]>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(found).map(([key, value]) => {
      try {
        return [key, decodeURIComponent(String(value))];
      } catch {
        throw new ProtocolError(INVALID_PARAMS, `${key} is not percent-encoded UTF-8`);
      }
    }),
  );
}
