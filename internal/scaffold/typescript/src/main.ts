#!/usr/bin/env node
// The command: reads the configuration, builds the server, and serves it until a signal.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { CapabilityError } from './capabilities.js';
import { ConfigurationError, MCPConfiguration, fromProcess, message } from './config.js';
import type { Log } from './config.js';
import * as http from './http.js';
import { Lifecycle } from './lifecycle.js';
import * as prompts from './prompts.js';
import * as resources from './resources.js';
import { Server } from './server.js';
import * as stdio from './stdio.js';
import * as tools from './tools.js';

/** Build the server with everything it offers. */
export function create(config: MCPConfiguration, lifecycle = new Lifecycle()): Server {
  const server = new Server(config, undefined, lifecycle, logger(config));
  tools.register(server);
  resources.register(server);
  prompts.register(server);
  return server;
}

/** Return what writes a line to stderr: stdout belongs to the messages of stdio. */
function logger(config: MCPConfiguration): Log {
  const levels = MCPConfiguration.shape.log_level.unwrap().options;
  return (text, level = 'INFO') => {
    if (levels.indexOf(level) < levels.indexOf(config.log_level)) return;
    const time = new Date().toISOString();
    const line =
      config.profile === 'production'
        ? JSON.stringify({ time, level, message: text })
        : `${level.padEnd(7)} ${text}`;
    process.stderr.write(`${line}\n`);
  };
}

/** Serve until SIGINT or SIGTERM. Over HTTP, SIGHUP restarts with a fresh configuration. */
async function run(file: string | undefined): Promise<void> {
  const lifecycle = new Lifecycle();
  let config = fromProcess(file);
  lifecycle.observe((state) => {
    logger(config)(`server is ${state}`);
  });
  for (let restart = true; restart;) {
    config = fromProcess(file);
    const transport = config.transport_type === 'HTTP' ? http : stdio;
    const stop = new AbortController();
    restart = false;
    const end = (signal: NodeJS.Signals) => {
      restart = signal === 'SIGHUP' && transport === http;
      stop.abort();
    };
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
    for (const signal of signals) process.on(signal, end);
    await transport.serve(create(config, lifecycle), stop.signal);
    for (const signal of signals) process.off(signal, end);
  }
}

async function main(): Promise<void> {
  try {
    const { values } = parseArgs({ options: { config: { type: 'string' } } });
    await run(values.config);
    process.exit(0);
  } catch (error) {
    const known = error instanceof ConfigurationError || error instanceof CapabilityError;
    process.stderr.write(`${known ? error.message : ((error as Error).stack ?? message(error))}\n`);
    process.exit(known ? 2 : 1);
  }
}

if (import.meta.url === pathToFileURL(path.resolve(process.argv[1] ?? '')).href) await main();
