// Runs the cases against one server with one kind of client, and prints a line for each. v1.mjs and v2.mjs call it.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CASES } from './cases.mjs';
import { aside } from './cases-broadcast.mjs';
import { atProvider } from './cases-provider.mjs';
import { atRest } from './cases-rest.mjs';

const KNOWN_TIMEOUT = 3000;
const USAGE = `usage: CLIENT [options] URL | CLIENT [options] -- COMMAND [ARG…]
  --transport http|sse    how to reach URL (default http)
  --mode M                v2 only: auto | legacy | modern (default auto)
  --expect legacy|modern  the era that must have been negotiated
  --only RE, --skip RE    which cases
  --no-questions          leave out the cases in which the server asks the client something
  --no-subscriptions      leave out the cases about change notifications
  --lossy-logs            log messages of calls that overlap may get lost (but not into another client)
  --basic                 only the cases that any server with an \`echo\` tool can pass
  --npm, --tasks          those, and the cases of the server from npm, of the one with tasks
  --broadcast             the cases of a server that sends what is for one session to all, without those that it cannot pass
  --rest                  the cases that a service of the REST envelope can pass
  --provider LOG          the cases of the example providers; LOG is what the provider writes
  --merged                the server is one of three that are served as one (cells.sh --merged)
  --server KIND           the kind of server (default dual-http): some cases make no sense at some
  --face NAME             what this client is called in known.tsv and in results
  --known FILE            the cases that must fail here (known.tsv)
  --results FILE          writes there, for each case: name, feature, result, note
  --timeout MS            for each case (default 10000)`;

/** Parses the command line of a client; ends the process if it is invalid. */
export function readOptions() {
  const argv = process.argv.slice(2);
  const dashes = argv.indexOf('--');
  const command = dashes < 0 ? [] : argv.slice(dashes + 1);
  const text = fallback => ({ type: 'string', default: fallback });
  const flag = { type: 'boolean', default: false };
  try {
    const { values, positionals } = parseArgs({
      args: dashes < 0 ? argv : argv.slice(0, dashes),
      allowPositionals: true,
      options: {
        transport: text('http'), mode: text('auto'), expect: { type: 'string' }, only: text('.'), skip: text('^$'), timeout: text('10000'),
        'no-questions': flag, 'no-subscriptions': flag, 'lossy-logs': flag, basic: flag, npm: flag, tasks: flag, broadcast: flag, rest: flag, provider: { type: 'string' },
        merged: flag, server: text('dual-http'), face: text('client'), known: { type: 'string' }, results: { type: 'string' },
      },
    });
    if ((positionals.length === 1) === (command.length > 0)) throw new Error('want a URL or a COMMAND');
    return { ...values, url: positionals[0], command, transport: command.length ? 'stdio' : values.transport, timeout: Number(values.timeout) };
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    process.exit(2);
  }
}

const never = (signal, done) => new Promise((_, reject) => {
  const leave = () => { done(); reject(new Error('the question was withdrawn')); };
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
});

/**
 * Answers questions of servers with `name`, so that mixed-up clients are noticed. `also` has the URLs that the user was sent to and the
 * number of questions that wait without end.
 */
export function answers(name) {
  const visited = [];
  let waiting = 0;
  let released = new AbortController();
  const elicit = async (params, signal) => {
    if (params.mode === 'url') {
      visited.push(params.url);
      return { action: 'accept' };
    }
    if (/wait/.test(params.message)) {
      waiting++;
      await never(AbortSignal.any([signal, released.signal].filter(Boolean)), () => waiting--);
    }
    if (/decline/.test(params.message)) return { action: 'decline' };
    if (/cancel/.test(params.message)) return { action: 'cancel' };
    const repeat = /^repeat (.*)/.exec(params.message)?.[1];
    if (params.requestedSchema.properties.name) return { action: 'accept', content: { name: repeat ? `${name} ${repeat}` : name } };
    return { action: 'accept', content: Object.fromEntries(Object.keys(params.requestedSchema.properties).map(key => [key, name])) };
  };
  const sample = params => {
    const last = [params.messages.at(-1).content].flat()[0];
    const spoken = content => ({ model: 'parrot', role: 'assistant', stopReason: content.type === 'text' ? 'endTurn' : 'toolUse', content });
    if (params.tools && last.type === 'text') return spoken({ type: 'tool_use', id: 'use-1', name: params.tools[0].name, input: { word: last.text } });
    return spoken({ type: 'text', text: `${name} heard ${last.type === 'tool_result' ? last.content[0].text : last.text}` });
  };
  const release = () => { released.abort(); released = new AbortController(); };
  return { elicit, sample, roots: () => ({ roots: [{ uri: `file:///home/${name}`, name }] }), also: { visited, waiting: () => waiting, release } };
}

/**
 * A fetch whose event streams can be cut, as by a bad network: `cutNext(n)` cuts the next answer to a POST after n messages,
 * `cutStanding()` the streams that were opened with GET.
 */
export function cuttableFetch() {
  const standing = new Set();
  let armed;
  const wrapped = (body, isGet) => {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let left = Infinity;
    let text = '';
    if (!isGet && armed) { left = armed.left; armed.cut = true; armed = undefined; }
    return new ReadableStream({
      start(controller) {
        if (isGet) standing.add(() => { reader.cancel().catch(() => {}); controller.error(new Error('the wire was cut')); });
      },
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) { controller.close(); return; }
        if (left === Infinity) { controller.enqueue(value); return; }
        text += decoder.decode(value, { stream: true });
        for (let end; (end = text.indexOf('\n\n')) >= 0;) {
          const event = text.slice(0, end + 2);
          text = text.slice(end + 2);
          controller.enqueue(new TextEncoder().encode(event));
          if (!/^data: *\{/m.test(event) || --left > 0) continue;
          await new Promise(resolve => setTimeout(resolve, 20)); // what was passed on must be read before the error takes it away
          reader.cancel().catch(() => {});
          controller.error(new Error('the wire was cut'));
          return;
        }
      },
      cancel: reason => reader.cancel(reason),
    });
  };
  return {
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (!response.body || !response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
      const { status, statusText, headers } = response;
      return new Response(wrapped(response.body, (init?.method ?? 'GET') === 'GET'), { status, statusText, headers });
    },
    cutNext: messages => {
      const mine = { left: messages, cut: false };
      armed = mine;
      return { done: () => mine.cut };
    },
    cutStanding: () => { for (const cut of standing) cut(); standing.clear(); },
  };
}

/** Both clients reconnect quickly, so that the cases do not wait long. */
export const RECONNECTION = { initialReconnectionDelay: 100, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1.5, maxRetries: 5 };

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The lines of known.tsv that concern this client at this server: { line, cases, reason }. */
function readKnown(options) {
  if (!options.known) return [];
  return readFileSync(options.known, 'utf8').split('\n').flatMap((text, i) => {
    if (text === '' || text.startsWith('#')) return [];
    const [client, server, name, reason] = text.split('\t');
    if (!reason) throw new Error(`${options.known}:${i + 1}: want four columns: client, server, case, reason`);
    if (!CASES.some(c => c.name === name)) throw new Error(`${options.known}:${i + 1}: there is no case ${name}`);
    const here = new RegExp(`^(${client})$`).test(options.face) && new RegExp(`^(${server})$`).test(options.server);
    return here ? [{ line: i + 1, name, reason }] : [];
  });
}

/** Reports whether a case is left out of this run. */
function left(options, test) {
  if (test.name !== 'connect' && !new RegExp(options.only).test(test.name)) return true;
  if (new RegExp(options.skip).test(test.name)) return true;
  if (options['no-questions'] && test.about === 'question') return true;
  if (options['no-subscriptions'] && test.about === 'subscription') return true;
  if (test.merged) return !options.merged;
  if (options.rest) return !atRest(test);
  if (options.provider) return !atProvider(test);
  if (options.npm || options.tasks || options.basic) return !(test.basic || (options.npm && test.npm) || (options.tasks && test.tasks));
  if (test.broadcast || options.broadcast && aside(test)) return test.broadcast !== options.broadcast;
  return Boolean(test.npm || test.tasks || test.rest || test.provider);
}

/** Returns the reason why a case does not apply to this client at this server, or undefined. */
function inapplicable(test, world) {
  if (test.era && world.a && test.era !== world.a.era) return `${test.era} clients only`;
  return test.needs?.(world);
}

/** Runs one case; resolves to its error text, or to undefined. */
async function attempt(test, world, ms) {
  try {
    if (test.name !== 'connect' && !world.a) throw new Error('not connected');
    await within(ms, test.run(world));
    return undefined;
  } catch (error) {
    return String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 300);
  }
}

/** Runs one case and prints a line; resolves to { result, note }, where result is ok, fail or baseline. */
async function judge(test, world, known) {
  const begun = performance.now();
  const wrong = await attempt(test, world, known ? Math.min(KNOWN_TIMEOUT, world.options.timeout) : world.options.timeout);
  const took = `${Math.round(performance.now() - begun)} ms`.padStart(8);
  const say = (word, more = '') => console.log(`${word} ${test.name.padEnd(20)} ${took}${more && `  ${more}`}`);
  if (known && wrong) {
    say('KNOWN', known.reason);
    return { result: 'baseline', note: known.reason };
  }
  if (known) {
    const note = `line ${known.line} of known.tsv: it passes; remove or narrow the line`;
    say('STALE', note);
    return { result: 'fail', note };
  }
  say(wrong === undefined ? 'PASS' : 'FAIL', wrong);
  return wrong === undefined ? { result: 'ok', note: '' } : { result: 'fail', note: wrong };
}

/**
 * Runs all cases; `connect(name)` opens a client as cases.mjs wants it. Prints `N passed, N failed` last and ends the
 * process: 0 when nothing failed.
 */
export async function run(options, connect) {
  process.on('unhandledRejection', error => console.log(`     unhandled rejection: ${error?.message ?? error}`));
  const known = readKnown(options);
  const world = {
    options, server: options.server, a: undefined, b: undefined,
    first: async () => (world.a ??= await connect('anna')),
    second: async () => (world.b ??= await connect('boris')),
  };
  const lines = [];
  const count = { ok: 0, fail: 0, baseline: 0, 'n/a': 0 };
  for (const test of CASES) {
    if (left(options, test)) continue;
    const reason = inapplicable(test, world);
    const { result, note } = reason ? { result: 'n/a', note: reason } : await judge(test, world, known.find(k => k.name === test.name));
    count[result]++;
    lines.push([test.name, test.feature, result, note.replace(/[\t\n]/g, ' ')].join('\t'));
  }
  if (options.results) writeFileSync(options.results, `${lines.join('\n')}\n`);
  if (count.baseline) console.log(`${count.baseline} known to fail without Dragoman too`);
  console.log(`${count.ok} passed, ${count.fail} failed`);
  process.exit(count.fail ? 1 : 0);
}
