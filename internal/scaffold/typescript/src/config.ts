// The configuration: environment over file over defaults, every value checked.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { parse } from 'smol-toml';
import * as z from 'zod/v4';

export const MAX_TIMEOUT = 300; // seconds, of anything
export const FILE_BYTES = 1024 * 1024;
const FILES = ['config.toml', 'config.json'] as const;
const PREFIX = 'MCP_';
export const SECRETS = ['bearer_token', 'api_key'] as const;

const seconds = `write seconds, 1 to ${MAX_TIMEOUT}`;
const positive = z.int().min(1).describe('write an integer of 1 or more');
const timeout = z.int().min(1).max(MAX_TIMEOUT).describe(seconds);
const secret = z.string().min(16).describe('set 16 characters or more: openssl rand -hex 32');

/** The settings of the server. The description of a key is what fixes a wrong value. */
export const MCPConfiguration = z.strictObject({
  server_name: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/)
    .describe('write 1 to 64 of a-z, 0-9 and -'),
  server_version: z
    .string()
    .regex(/^\d+\.\d+\.\d+$/)
    .describe('write MAJOR.MINOR.PATCH, like 1.2.3'),
  profile: z
    .enum(['development', 'production'])
    .describe('write development or production')
    .default('development'),
  log_level: z
    .enum(['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'])
    .describe('write DEBUG, INFO, WARNING, ERROR or CRITICAL')
    .default('INFO'),
  transport_type: z.enum(['STDIO', 'HTTP']).describe('write STDIO or HTTP'),
  http_host: z.string().min(1).describe('write an address, like 127.0.0.1').optional(),
  http_port: z.int().min(1024).max(65535).describe('write 1024 to 65535').optional(),
  tool_timeout: timeout.default(30),
  resource_timeout: timeout.default(10),
  prompt_timeout: timeout.default(5),
  max_response_size_mb: positive.default(100),
  rate_limit_per_minute: positive.default(100),
  rate_limit_burst: positive.default(20),
  bearer_token: secret.optional(),
  api_key: secret.optional(),
  cors_origins: z
    .array(z.string())
    .describe('write origins, like https://app.example.com')
    .default([]),
  allowed_hosts: z.array(z.string()).describe('write host names, like mcp.example.com').default([]),
  file_root: z.string().min(1).describe('write the path of a folder').default('files'),
});
export type MCPConfiguration = z.infer<typeof MCPConfiguration>;
type Key = keyof MCPConfiguration;

/** Writes a line to the log, of level INFO if none is named. */
export type Log = (text: string, level?: MCPConfiguration['log_level']) => void;
const keys = Object.keys(MCPConfiguration.shape) as Key[];

/** Values that break a rule, a line each: key, value and fix. */
export class ConfigurationError extends Error {}

/**
 * Load the configuration. path is the file; without it, config.toml or config.json in the current
 * folder, if there. Throws a ConfigurationError.
 */
export function load(environ: Record<string, string | undefined>, path?: string): MCPConfiguration {
  const values = read(path ?? find());
  const inFile = SECRETS.filter((key) => key in values);
  if (inFile.length > 0) {
    const line = (key: string) => `${key}: in a file; fix: set ${PREFIX}${key.toUpperCase()}`;
    throw new ConfigurationError(inFile.map(line).join('\n'));
  }
  for (const key of keys) {
    const text = environ[PREFIX + key.toUpperCase()];
    if (text !== undefined) values[key] = fromText(key, text);
  }
  if ((values['profile'] ?? 'development') === 'development') values['log_level'] ??= 'DEBUG';
  const parsed = MCPConfiguration.safeParse(values);
  if (!parsed.success) throw new ConfigurationError(explain(parsed.error, values).join('\n'));
  const problems = httpProblems(parsed.data);
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'));
  return parsed.data;
}

/** Load the configuration of this process. MCP_CONFIG_FILE names the file if path does not. */
export function fromProcess(path?: string): MCPConfiguration {
  return load(process.env, path ?? process.env[`${PREFIX}CONFIG_FILE`]);
}

function httpProblems(config: MCPConfiguration): string[] {
  if (config.transport_type !== 'HTTP') return [];
  const missing = (['http_host', 'http_port'] as const).filter((key) => config[key] === undefined);
  const problems = missing.map((key) => `${key}: missing; fix: ${fix(key)}`);
  if (config.bearer_token === undefined && config.api_key === undefined) {
    problems.push(
      'bearer_token, api_key: HTTP is not served without authentication; fix: set MCP_BEARER_TOKEN or MCP_API_KEY',
    );
  }
  return problems;
}

function find(): string | undefined {
  const found = FILES.filter((name) => existsSync(name));
  if (found.length > 1) {
    throw new ConfigurationError(`${FILES.join(' and ')} are both there; fix: remove one`);
  }
  return found[0];
}

function read(path: string | undefined): Record<string, unknown> {
  if (path === undefined) return {};
  try {
    if (statSync(path).size > FILE_BYTES) throw new Error(`more than ${FILE_BYTES} bytes`);
    const text = readFileSync(path, 'utf8');
    const values: unknown = path.endsWith('.json') ? JSON.parse(text) : parse(text);
    return z.record(z.string(), z.unknown()).parse(values);
  } catch (error) {
    const said = error instanceof z.ZodError ? 'no table of keys' : message(error);
    throw new ConfigurationError(`${path}: ${said}; fix: write TOML, or JSON in *.json`);
  }
}

/** What an error says, on one line. */
export function message(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replaceAll(/\s+/g, ' ');
}

function fromText(key: Key, text: string): unknown {
  if (key === 'cors_origins' || key === 'allowed_hosts') {
    return text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '');
  }
  const isNumber = /_(port|timeout|mb|minute|burst)$/.test(key);
  return isNumber && /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

function fix(key: Key): string {
  let schema: z.core.$ZodType = MCPConfiguration.shape[key];
  while (schema instanceof z.ZodDefault || schema instanceof z.ZodOptional) {
    if (schema.description !== undefined) break;
    schema = schema.unwrap();
  }
  return (schema as z.ZodType).description ?? '';
}

function explain(error: z.ZodError, values: Record<string, unknown>): string[] {
  const lines = new Set<string>();
  for (const issue of error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys)
        lines.add(`${key}: unknown key; fix: write one of README's keys`);
      continue;
    }
    const key = String(issue.path[0]) as Key;
    const hidden = (SECRETS as readonly string[]).includes(key);
    const value = () => (hidden ? '<hidden>' : JSON.stringify(values[key]).slice(0, 100));
    const said = key in values ? `${value()} is wrong` : 'missing';
    lines.add(`${key}: ${said}; fix: ${fix(key)}, in the file or as ${PREFIX}${key.toUpperCase()}`);
  }
  return [...lines];
}
