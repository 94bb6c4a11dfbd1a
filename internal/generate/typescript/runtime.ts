// What the modules of this folder share. Written by dragoman generate, not for editing. It runs in Node.js 20.3 and later, in browsers, Deno and Bun.

/** Where the tools of a server are called, and the environment variables that replace that when a program runs. */
export interface Service {
  readonly name: string;
  readonly url: string;
  readonly urlVariable: string;
  readonly tokenVariable: string;
}

/** How far a call is. `progress` rises; `total` is not always known. */
export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A log message of a server. */
export interface Log {
  readonly level: string;
  readonly logger?: string;
  readonly data: unknown;
}

/** A block of content for models: a text, an image, a sound, a resource. */
export interface Content {
  readonly type: string;
  readonly text?: string;
  readonly data?: string;
  readonly mimeType?: string;
  readonly [key: string]: unknown;
}

/** The result of a call. */
export interface ToolResult<T> {
  /** The structured content; undefined if the tool declares none. */
  readonly structured: T;
  readonly content: readonly Content[];
  /** The texts of the content, one after the other. */
  readonly text: string;
  /** The whole result. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** Settings of a call, or, given to `configure`, of all calls. */
export interface CallOptions {
  /** The address of the service in the place of the one of generation. */
  url?: string;
  /** A bearer token. */
  token?: string;
  /** Milliseconds until the call is given up; 15 minutes without it. */
  timeout?: number;
  /** Ends the call, also at the server. */
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  onLog?: (log: Log) => void;
  /** Answers what the server asks: for each key of the requests a result. */
  onQuestion?: (requests: Record<string, unknown>) => Promise<Record<string, unknown>> | Record<string, unknown>;
  /** In the place of the global fetch. */
  fetch?: typeof fetch;
}

/** The codes of the envelope, and those of this module. */
export type ErrorCode =
  | "TOOL_NOT_FOUND"
  | "INVALID_ARGUMENTS"
  | "EXECUTION_ERROR"
  | "INTERNAL_ERROR"
  | "TIMEOUT"
  | "RATE_LIMITED"
  | "SERVICE_UNAVAILABLE"
  | "INPUT_REQUIRED"
  | "NO_ANSWER";

/** A call has failed. */
export class ToolError extends Error {
  readonly code: ErrorCode | (string & {});
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  /** The whole answer. */
  readonly envelope: Readonly<Record<string, unknown>>;
  /** After how many seconds another call may succeed, if the server says it. */
  readonly retryAfter: number | undefined;

  constructor(message: string, code: string, status = 0, envelope: Record<string, unknown> = {}, retryAfter?: number, cause?: unknown) {
    super(message, { cause });
    this.name = "ToolError";
    this.code = code;
    this.status = status;
    this.envelope = envelope;
    this.retryAfter = retryAfter;
  }
}

const defaults = new Map<string, CallOptions>();

/** Sets options of all calls of a service, by its name, or of all services. Those of a call come first; undefined is as if left out. */
export function configure(options: CallOptions, service = ""): void {
  defaults.set(service, { ...defaults.get(service), ...options });
}

const maxRounds = 32; // questions of one call

/** Calls a tool by its name. */
export async function call<T>(service: Service, tool: string, args: object, options: CallOptions = {}): Promise<ToolResult<T>> {
  const all: CallOptions = {};
  for (const some of [defaults.get(""), defaults.get(service.name), options]) {
    Object.assign(all, Object.fromEntries(Object.entries(some ?? {}).filter(([, value]) => value !== undefined)));
  }
  const body: Record<string, unknown> = { tool, arguments: args };
  for (let round = 0; round < maxRounds; round++) {
    const data = await send(service, body, all);
    if (data["result_type"] !== "input_required") {
      return result<T>(data);
    }
    const requests = record(data["input_requests"]);
    if (all.onQuestion === undefined) {
      throw new ToolError("the server asks something: give the call onQuestion", "INPUT_REQUIRED", 200, data);
    }
    body["input_responses"] = await all.onQuestion(requests);
    body["request_state"] = data["request_state"];
  }
  throw new ToolError("the server asks without an end", "NO_ANSWER");
}

async function send(service: Service, body: Record<string, unknown>, options: CallOptions): Promise<Record<string, unknown>> {
  const url = (options.url ?? variable(service.urlVariable) ?? service.url).replace(/\/+$/, "") + "/call-tool";
  const token = options.token ?? variable(service.tokenVariable);
  const streams = options.onProgress !== undefined || options.onLog !== undefined;
  const headers: Record<string, string> = { "Content-Type": "application/json", Accept: streams ? "text/event-stream" : "application/json" };
  if (token !== undefined) {
    headers["Authorization"] = `Bearer ${token}`;
  }
  const late = AbortSignal.timeout(options.timeout ?? 15 * 60 * 1000);
  const signal = options.signal === undefined ? late : AbortSignal.any([options.signal, late]);
  try {
    const response = await (options.fetch ?? fetch)(url, {
      method: "POST",
      headers,
      body: JSON.stringify(options.onLog === undefined ? body : { ...body, log_level: "info" }),
      redirect: "error",
      signal,
    });
    const text = response.headers.get("content-type")?.startsWith("text/event-stream") === true ? await streamed(response, options) : await response.text();
    return opened(response, text);
  } catch (error) {
    if (error instanceof ToolError || options.signal?.aborted === true) {
      throw error;
    }
    throw new ToolError(`no answer from ${url}: ${String(error)}`, late.aborted ? "TIMEOUT" : "NO_ANSWER", 0, {}, undefined, error);
  }
}

/** The envelope at the end of a stream. */
async function streamed(response: Response, options: CallOptions): Promise<string> {
  let rest = "";
  let event = "";
  let data: string[] = [];
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
    rest += decoder.decode(part.value, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("event:")) {
        event = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).replace(/^ /, ""));
      } else if (line === "") {
        const text = data.join("\n");
        const name = event;
        [event, data] = ["", []];
        if (name === "result") {
          void reader?.cancel();
          return text;
        } else if (name === "progress") {
          options.onProgress?.(parsed(text) as unknown as Progress);
        } else if (name === "log") {
          options.onLog?.(parsed(text) as unknown as Log);
        }
      }
    }
  }
  throw new ToolError("the answer ended before its result", "NO_ANSWER", response.status);
}

/** The data of an envelope. */
function opened(response: Response, text: string): Record<string, unknown> {
  const envelope = parsed(text);
  const data = envelope["data"];
  if (envelope["success"] === true && typeof data === "object" && data !== null) {
    const fields = record(data);
    if (fields["isError"] === true) {
      throw new ToolError(result(fields).text || "the tool has failed", "EXECUTION_ERROR", response.status, { ...envelope, meta: { result: data } });
    }
    return fields;
  }
  if (envelope["success"] !== false) {
    throw new ToolError(`the answer, with status ${String(response.status)}, is no envelope`, "NO_ANSWER", response.status);
  }
  const after = Number(response.headers.get("retry-after") ?? Number.NaN);
  throw new ToolError(string(envelope["error"], `status ${String(response.status)}`), string(envelope["code"], ""), response.status, envelope, Number.isNaN(after) ? undefined : after);
}

function result<T>(data: Record<string, unknown>): ToolResult<T> {
  const content = (Array.isArray(data["content"]) ? data["content"] : []) as Content[];
  const texts = content.filter((block) => block.type === "text").map((block) => block.text ?? "");
  return { structured: data["structuredContent"] as T, content, text: texts.join("\n"), raw: data };
}

function parsed(text: string): Record<string, unknown> {
  try {
    return record(JSON.parse(text));
  } catch {
    return {};
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function string(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

/** An environment variable, where there are any. */
function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
