// Functions for the cases.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

export const WATCHED = 'test://watched-resource';
export const said = r => r.content?.[0]?.text;
export const range = n => Array.from({ length: n }, (_, i) => i);

/** Waits for a true value of `f`. */
export async function until(what, f, ms = 10000) {
  for (const end = Date.now() + ms; ;) {
    const value = await f();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await pause(20);
  }
}

/**
 * Makes a transport deliver a response, and what comes after it, in a later turn of the event loop. The SDK's clients handle a response at once
 * and a notification a moment later, so they lose progress that arrives in one read with its result.
 */
export function responsesLater(transport) {
  const waiting = [];
  let receive;
  const next = () => {
    receive?.(...waiting.shift());
    if (waiting.length > 0) setImmediate(next);
  };
  const deliver = (message, extra) => {
    if (waiting.length === 0 && 'method' in message) receive(message, extra);
    else if (waiting.push([message, extra]) === 1) setImmediate(next);
  };
  return Object.defineProperty(transport, 'onmessage', { get: () => receive && deliver, set: f => { receive = f; } });
}

/** The error of a promise that must fail. */
export async function failure(what, promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`${what}: no error`);
}

/** Checks that a tool call is refused, by an error with a code or by a result with isError. */
export async function refused(promise) {
  try {
    assert.equal((await promise).isError, true, 'neither an error nor an error result');
  } catch (error) {
    if (error.code === 'ERR_ASSERTION') throw error;
    assert.equal(typeof error.code, 'number', `no code: ${error.message}`);
  }
}

/** Returns all items of a list; checks the number of pages, and with --merged that those of the servers beside it come first and last. */
export async function allPages({ a: client, options }, method, member, pages) {
  const items = [];
  let cursor;
  let count = 0;
  do {
    const page = await client.page(method, cursor);
    items.push(...page[member]);
    cursor = page.nextCursor;
    count++;
  } while (cursor !== undefined && count < 50);
  assert.equal(count, options.merged ? 1 : pages, 'number of pages');
  if (!options.merged) return items;
  assert.match(JSON.stringify(items.shift()), /of before"/, 'the server before comes first');
  assert.match(JSON.stringify(items.pop()), /of later"/, 'the server after it comes last');
  return items;
}

/** Collects log messages while `f` runs and until `enough` have come. */
export async function logsOf(client, f, enough) {
  const seen = [];
  client.onLog(p => seen.push(p));
  await f();
  if (enough > 0) await until(`${enough} log messages (got ${seen.length})`, () => seen.length >= enough);
  await pause(80); // one message too many would come now
  client.onLog(() => {});
  return seen;
}

export const lineNumbers = logs => logs.map(l => l.data.line);
export const unique = what => `${what}-${process.pid}-${Math.random().toString(36).slice(2)}`;
export const stats = async client => (await client.call('stats', {})).structuredContent;

/** Marks cases as a group that can be left out. */
export const named = about => test => ({ ...test, about });

// The reasons for which a case does not apply, for `needs`.
export const legacyServer = w => (w.server.startsWith('modern-') || (w.server.startsWith('dual-') && w.a?.era === 'modern')
  ? 'a modern server speaks only when it is asked' : undefined);
export const legacyClient = w => (w.a?.era === 'modern' ? 'modern clients do without' : undefined);
export const legacyHttp = w => legacyClient(w) ?? (w.options.transport === 'http' ? undefined : 'only streamable HTTP has streams that can be resumed');
