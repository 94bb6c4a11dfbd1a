// Runs the cases against one server with one kind of client, and prints a line for each. v1.mjs and v2.mjs call it.
import { parseArgs } from 'node:util';
import { CASES } from './cases.mjs';

const USAGE = `usage: CLIENT [options] URL | CLIENT [options] -- COMMAND [ARG…]
  --transport http|sse    how to reach URL (default http)
  --mode M                v2 only: auto | legacy | modern (default auto)
  --expect legacy|modern  the era that must have been negotiated
  --only RE, --skip RE    which cases
  --no-questions          leave out the cases in which the server asks the client something
  --no-subscriptions      leave out the cases about change notifications
  --lossy-logs            log messages of calls that overlap may get lost (but not into another client)
  --basic                 only the cases that any server with an \`echo\` tool can pass
  --timeout MS            for each case (default 10000)`;

/** The options of a client's command line; ends the process where they make no sense. */
export function readOptions() {
  const argv = process.argv.slice(2);
  const dashes = argv.indexOf('--');
  const command = dashes < 0 ? [] : argv.slice(dashes + 1);
  try {
    const { values, positionals } = parseArgs({
      args: dashes < 0 ? argv : argv.slice(0, dashes),
      allowPositionals: true,
      options: {
        transport: { type: 'string', default: 'http' }, mode: { type: 'string', default: 'auto' }, expect: { type: 'string' },
        only: { type: 'string', default: '.' }, skip: { type: 'string', default: '^$' }, timeout: { type: 'string', default: '10000' },
        'no-questions': { type: 'boolean', default: false }, 'no-subscriptions': { type: 'boolean', default: false },
        'lossy-logs': { type: 'boolean', default: false },
        basic: { type: 'boolean', default: false },
      },
    });
    if ((positionals.length === 1) === (command.length > 0)) throw new Error('want a URL or a COMMAND');
    return { ...values, url: positionals[0], command, transport: command.length ? 'stdio' : values.transport, timeout: Number(values.timeout) };
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    process.exit(2);
  }
}

/** How the client answers what servers ask; `name` shows up in the answers, so that mixed-up clients are seen. */
export const answers = name => ({
  elicit: params => (/decline/.test(params.message) ? { action: 'decline' } : { action: 'accept', content: { name } }),
  sample: params => {
    const last = [params.messages.at(-1).content].flat()[0];
    return { model: 'parrot', role: 'assistant', stopReason: 'endTurn', content: { type: 'text', text: `${name} heard ${last.text}` } };
  },
  roots: () => ({ roots: [{ uri: `file:///home/${name}`, name }] }),
});

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function wanted(options, test, client) {
  if (test.name !== 'connect' && !new RegExp(options.only).test(test.name)) return false;
  if (new RegExp(options.skip).test(test.name)) return false;
  if (options['no-questions'] && test.about === 'question') return false;
  if (options['no-subscriptions'] && test.about === 'subscription') return false;
  if (options.basic && !test.basic) return false;
  return !test.era || !client || test.era === client.era;
}

async function attempt(test, world, ms) {
  const begun = performance.now();
  const took = () => `${Math.round(performance.now() - begun)} ms`.padStart(8);
  try {
    if (test.name !== 'connect' && !world.a) throw new Error('not connected');
    await within(ms, test.run(world));
    console.log(`PASS ${test.name.padEnd(20)} ${took()}`);
    return true;
  } catch (error) {
    console.log(`FAIL ${test.name.padEnd(20)} ${took()}  ${String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 300)}`);
    return false;
  }
}

/**
 * Runs all cases; `connect(name)` opens a client as cases.mjs wants it. Prints `N passed, N failed` last and ends the
 * process: 0 when nothing failed.
 */
export async function run(options, connect) {
  process.on('unhandledRejection', error => console.log(`     unhandled rejection: ${error?.message ?? error}`));
  const world = {
    options, a: undefined, b: undefined,
    first: async () => (world.a ??= await connect('anna')),
    second: async () => (world.b ??= await connect('boris')),
  };
  let passed = 0;
  let failed = 0;
  for (const test of CASES) {
    if (!wanted(options, test, world.a)) continue;
    if (await attempt(test, world, options.timeout)) passed++;
    else failed++;
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
