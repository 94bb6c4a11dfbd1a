// What a server offers: tools, resources and prompts, with the rules of each.
import { UriTemplate } from '@modelcontextprotocol/server';
import type { ContentBlock } from '@modelcontextprotocol/server';
import * as z from 'zod/v4';
import { MAX_TIMEOUT } from './config.js';

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const MIME_TYPE =
  /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(;[^\r\n]+)?$/;
const PLACEHOLDER = /\{([a-z][a-z0-9_]*)\}/g;
const MAX_DESCRIPTION = 500;

/** A tool, resource or prompt that breaks a rule. */
export class CapabilityError extends Error {}

/** A failure that may be gone at the next attempt. Tools with a RetryConfig try again. */
export class TransientError extends Error {}

/** How often a tool is tried, and how long it waits in between: the delay, then twice as long. */
export interface RetryConfig {
  attempts: number;
  delaySeconds: number;
}

interface Common {
  name: string;
  description: string;
  /** Seconds, 300 at most. Without it, the one of the configuration. */
  timeout?: number;
}

/** A function that clients call. Others wait while it runs, unless it is thread-safe. */
export interface Tool<S extends z.ZodObject = z.ZodObject> extends Common {
  inputSchema: S;
  /** Returns a text, or texts, images and whatever else MCP has. */
  handler: (args: z.infer<S>, signal: AbortSignal) => Promise<string | ContentBlock[]>;
  retry?: RetryConfig;
  threadSafe?: boolean;
}

/** Something that clients read. A static one is fetched once, a dynamic one has variables. */
export interface Resource extends Common {
  uriPattern: string;
  mimeType: string;
  isStatic: boolean;
  /** Returns a text or bytes. */
  fetch: (variables: Record<string, string>, signal: AbortSignal) => Promise<string | Uint8Array>;
}

/** A parameter of a prompt. Without a default it is required. */
export interface ParameterSpec {
  type: 'string' | 'number' | 'boolean' | 'array' | 'object';
  description: string;
  default?: unknown;
}

/** Messages that a client gives to its model, with values in place of {placeholders}. */
export interface Prompt extends Common {
  parameters: Record<string, ParameterSpec>;
  /** MCP has no role "system": clients get it as "user". */
  template: { role: 'system' | 'user' | 'assistant'; text: string }[];
  /** Arguments, and a text that the prompt then contains. They are checked at the start. */
  examples?: { arguments: Record<string, string>; contains: string }[];
}

function checkCommon(kind: string, it: Common): void {
  if (!NAME.test(it.name)) {
    throw new CapabilityError(
      `${kind} ${JSON.stringify(it.name)}: name; fix: a-z first, then a-z, 0-9 or _, 64 in all`,
    );
  }
  if (it.description.trim() === '' || Array.from(it.description).length > MAX_DESCRIPTION) {
    throw new CapabilityError(
      `${kind} ${it.name}: description; fix: write 1 to ${MAX_DESCRIPTION} characters`,
    );
  }
  const { timeout } = it;
  if (
    timeout !== undefined &&
    !(Number.isInteger(timeout) && timeout >= 1 && timeout <= MAX_TIMEOUT)
  ) {
    throw new CapabilityError(
      `${kind} ${it.name}: timeout ${timeout}; fix: 1 to ${MAX_TIMEOUT} seconds`,
    );
  }
}

export function checkTool(tool: Tool): void {
  checkCommon('tool', tool);
  try {
    z.toJSONSchema(tool.inputSchema, { io: 'input' });
  } catch {
    throw new CapabilityError(`tool ${tool.name}: inputSchema is no JSON Schema; fix: see zod`);
  }
  const { retry } = tool;
  if (retry && !(Number.isInteger(retry.attempts) && retry.attempts >= 1 && retry.attempts <= 10)) {
    throw new CapabilityError(`tool ${tool.name}: attempts; fix: write 1 to 10`);
  }
  if (retry && !(retry.delaySeconds >= 0 && retry.delaySeconds <= MAX_TIMEOUT)) {
    throw new CapabilityError(`tool ${tool.name}: delaySeconds; fix: write 0 to ${MAX_TIMEOUT}`);
  }
}

export function checkResource(resource: Resource): void {
  checkCommon('resource', resource);
  const where = `resource ${resource.name}`;
  if (!MIME_TYPE.test(resource.mimeType)) {
    throw new CapabilityError(`${where}: mimeType; fix: like text/plain`);
  }
  let variables: string[];
  try {
    variables = new UriTemplate(resource.uriPattern).variableNames;
  } catch (error) {
    throw new CapabilityError(`${where}: uriPattern: ${String(error)}; fix: see RFC 6570`);
  }
  if (
    !/^[a-z][a-z0-9+.-]*:/.test(resource.uriPattern) ||
    resource.isStatic === variables.length > 0
  ) {
    throw new CapabilityError(
      `${where}: uriPattern; fix: write a URI, with {variables} exactly if it is not static`,
    );
  }
}

export function checkPrompt(prompt: Prompt): void {
  checkCommon('prompt', prompt);
  const where = `prompt ${prompt.name}`;
  if (prompt.template.length === 0) {
    throw new CapabilityError(`${where}: template; fix: write a message`);
  }
  for (const { role, text } of prompt.template) {
    if (!['system', 'user', 'assistant'].includes(role)) {
      throw new CapabilityError(`${where}: role; fix: system, user or assistant`);
    }
    for (const [, name = ''] of text.matchAll(PLACEHOLDER)) {
      if (!Object.hasOwn(prompt.parameters, name)) {
        throw new CapabilityError(`${where}: ${name}; fix: define this parameter`);
      }
    }
  }
  for (const [key, spec] of Object.entries(prompt.parameters)) {
    if (spec.default !== undefined && !is(spec.type, spec.default)) {
      throw new CapabilityError(`${where}: default of ${key}; fix: write a ${spec.type}`);
    }
  }
  for (const example of prompt.examples ?? []) {
    if (!fill(prompt, example.arguments).some(({ text }) => text.includes(example.contains))) {
      throw new CapabilityError(`${where}: example; fix: ${JSON.stringify(example.contains)}`);
    }
  }
}

/**
 * Put values in place of placeholders, once: a value may contain braces. Throws an Error if an
 * argument is missing, unknown or of another type.
 */
export function fill(
  prompt: Prompt,
  given: Record<string, string>,
): { role: 'user' | 'assistant'; text: string }[] {
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(prompt.parameters, key)) throw new Error(`unknown argument ${key}`);
  }
  const texts = new Map(
    Object.entries(prompt.parameters).map(([key, spec]) => [key, asText(key, spec, given[key])]),
  );
  return prompt.template.map(({ role, text }) => ({
    role: role === 'assistant' ? 'assistant' : 'user',
    text: text.replaceAll(PLACEHOLDER, (_, name: string) => texts.get(name) ?? ''),
  }));
}

function asText(key: string, spec: ParameterSpec, given: string | undefined): string {
  let value = spec.default;
  if (given === undefined) {
    if (value === undefined) throw new Error(`${key} is missing; it is a ${spec.type}`);
  } else if (spec.type === 'string') {
    value = given;
  } else {
    try {
      value = JSON.parse(given);
    } catch {
      value = undefined;
    }
    if (!is(spec.type, value))
      throw new Error(`${key} is not a ${spec.type}; fix: write it as JSON`);
  }
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    return value.join(', ');
  return JSON.stringify(value);
}

function is(type: ParameterSpec['type'], value: unknown): boolean {
  if (type === 'array') return Array.isArray(value);
  if (type === 'object')
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}
