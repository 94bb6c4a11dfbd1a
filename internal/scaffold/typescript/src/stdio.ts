// MCP on stdin and stdout: messages, a line each. Logs go to stderr.
import { PassThrough } from 'node:stream';
import type { Readable, Writable } from 'node:stream';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { Guard } from './guard.js';
import { SHUTDOWN_SECONDS } from './limits.js';
import type { Server } from './server.js';

/** Wait for work, but not longer than so many seconds. Returns whether it was done. */
export async function within(seconds: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((done) => {
    timer = setTimeout(done, seconds * 1000, false);
  });
  const done = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return done;
}

/**
 * Serve the client on stdin and stdout until it closes stdin, or until stop. The SDK aborts what
 * runs when its input ends, so that it sees the end once all requests are answered.
 */
export async function serve(
  server: Server,
  stop: AbortSignal,
  stdin: Readable = process.stdin,
  stdout: Writable = process.stdout,
): Promise<void> {
  console.log = console.error; // what a handler prints must not stand between messages
  server.start();
  const input = new PassThrough();
  const closed = new Promise<void>((done) => {
    const transport = new Guard(server, new StdioServerTransport(input, stdout), done);
    serveStdio(() => server.build(), { transport });
  });
  const ended = new Promise<void>((done) => {
    stdin.once('end', done);
    stdin.once('error', () => {
      done();
    });
    stop.addEventListener('abort', () => {
      done();
    });
    if (stop.aborted) done();
  });
  stdin.pipe(input, { end: false });
  await ended;
  stdin.unpipe(input);
  stdin.pause();
  await new Promise(setImmediate); // what was read before the end reaches the guard first
  server.lifecycle.to('shutting_down');
  await within(SHUTDOWN_SECONDS, server.gate.idle());
  input.end();
  await closed;
  server.lifecycle.to('stopped');
}
