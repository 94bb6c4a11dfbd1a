// The cases, in the order in which they run. A case is { name, feature, run(world) } and may say
//   era        legacy | modern: runs only for clients of that era
//   needs      a function of the world; it returns the reason why the case does not apply, or nothing
//   basic      needs nothing from the server but an `echo` tool
//   npm, tasks, rest, provider    only for the server from npm, for that with tasks, for the REST service, for the providers: they have tools
//              of their own
//   broadcast  only for the server that broadcasts
//   merged     only with --merged
// `feature` is the row of the matrix that a case belongs to: a group, a slash, a name. `world.a` is a connected client,
// `await world.second()` another one; `world.server` is the kind of server behind Dragoman. v2.mjs documents the methods of a client.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { BROADCAST } from './cases-broadcast.mjs';
import { CHANGES } from './cases-changes.mjs';
import { MERGED } from './cases-merged.mjs';
import { PROVIDER } from './cases-provider.mjs';
import { QUESTIONS } from './cases-questions.mjs';
import { REST } from './cases-rest.mjs';
import { TASKS } from './cases-tasks.mjs';
import { allPages, failure, lineNumbers, logsOf, range, refused, said, stats, unique, until, WATCHED } from './helpers.mjs';

const opening = [
  { name: 'connect', feature: 'connection/handshake', basic: true, run: async w => {
    const a = await w.first();
    if (w.options.expect) assert.equal(a.era, w.options.expect);
  } },
  { name: 'introduction', feature: 'connection/server information', run: async ({ a, options: { merged } }) => {
    assert.equal(a.info?.name, merged ? 'dragoman' : 'conformance-fixture');
    const instructions = 'A server for conformance tests.';
    assert.equal(a.instructions, merged ? `# before\n\nThe server before.\n\n# default\n\n${instructions}\n\n# later\n\nThe server later.` : instructions);
    for (const c of ['tools', 'prompts', 'resources', 'completions', 'logging']) assert.ok(a.capabilities[c], `capability ${c}`);
  } },
  { name: 'ping', feature: 'connection/ping', era: 'legacy', basic: true, run: ({ a }) => a.ping() },
];

const lists = [
  { name: 'list_any', feature: 'lists/tools', basic: true, run: async ({ a }) => {
    const { tools } = await a.page('tools/list');
    assert.ok(tools.some(t => t.name === 'echo' || t.name === 'test_simple_text'), 'a known tool');
  } },
  { name: 'list_tools', feature: 'lists/tools', run: async w => {
    const tools = await allPages(w, 'tools/list', 'tools', 2);
    const names = tools.map(t => t.name);
    assert.equal(new Set(names).size, names.length, 'no tool twice');
    for (const n of ['test_simple_text', 'echo', 'add', 'ask_rounds']) assert.ok(names.includes(n), `tool ${n}`);
    assert.equal(tools.find(t => t.name === 'add').outputSchema.properties.sum.type, 'number');
  } },
  { name: 'list_prompts', feature: 'lists/prompts', run: async w => {
    const prompts = await allPages(w, 'prompts/list', 'prompts', 2);
    assert.deepEqual(prompts.find(p => p.name === 'greet').arguments.map(x => [x.name, x.required]), [['who', true], ['style', false]]);
  } },
  { name: 'list_resources', feature: 'lists/resources', run: async w => {
    const resources = await allPages(w, 'resources/list', 'resources', 2);
    assert.deepEqual(resources.map(r => r.uri), ['test://static-text', 'test://static-binary', WATCHED, 'note://one', 'note://two', 'note://asked']);
  } },
  { name: 'list_templates', feature: 'lists/resource templates', run: async w => {
    const templates = await allPages(w, 'resources/templates/list', 'resourceTemplates', 3);
    assert.deepEqual(templates.map(t => t.uriTemplate), ['test://template/{id}/data', 'planet://{name}', 'moon://{planet}/{index}']);
  } },
  { name: 'list_bad_cursor', feature: 'lists/unknown cursor', run: async ({ a }) =>
    assert.equal((await failure('an invented cursor', a.page('tools/list', 'invented'))).code, -32602) },
];

const calls = [
  { name: 'echo_unicode', feature: 'requests/tool call', basic: true, run: async ({ a }) => {
    const message = 'grüße "quoted" \\ back \t tab \n line \u2028 </script> \u0001 🦊 終';
    assert.equal(said(await a.call('echo', { message })), `Echo: ${message}`);
  } },
  { name: 'echo_200k', feature: 'requests/large bodies', basic: true, run: async ({ a }) => {
    const message = `${'0123456789'.repeat(20_000)}é`;
    assert.ok(said(await a.call('echo', { message })) === `Echo: ${message}`, 'what came back differs');
  } },
  { name: 'structured', feature: 'requests/structured content', run: async ({ a }) => {
    const r = await a.call('add', { a: 2, b: 0.5 });
    assert.deepEqual([r.structuredContent, said(r)], [{ sum: 2.5 }, '{"sum":2.5}']);
  } },
  { name: 'content_kinds', feature: 'requests/content kinds', run: async ({ a }) => {
    const { content } = await a.call('test_multiple_content_types', {});
    assert.deepEqual(content.map(c => c.type), ['text', 'image', 'resource']);
    assert.ok(content[1].data.startsWith('iVBOR'));
    assert.equal((await a.call('test_audio_content', {})).content[0].mimeType, 'audio/wav');
  } },
  { name: 'no_arguments', feature: 'requests/tool call', run: async ({ a }) => assert.equal(said(await a.call('defaults')), 'mood unset') },
  { name: 'mirrored_arguments', feature: 'requests/mirrored arguments', run: async ({ a }) => {
    const region = 'Überall =?base64?x?=';
    assert.equal(said(await a.call('test_mirrored_arguments', { region, shard: 42 })), `region ${region}, shard 42`);
  } },
  { name: 'tool_fails', feature: 'requests/errors', run: async ({ a }) => {
    const r = await a.call('test_error_handling', {});
    assert.deepEqual([r.isError, said(r)], [true, 'This tool intentionally returns an error for testing']);
  } },
  { name: 'tool_unknown', feature: 'requests/errors', basic: true, run: ({ a }) => refused(a.call('no_such_tool', {})) },
  { name: 'tool_bad_arguments', feature: 'requests/errors', run: ({ a }) => refused(a.call('add', { a: 'one' })) },
];

const documents = [
  { name: 'read_text', feature: 'requests/resources', run: async ({ a }) =>
    assert.deepEqual((await a.read('note://one')).contents, [{ uri: 'note://one', mimeType: 'text/plain', text: 'the first note, with an ümlaut' }]) },
  { name: 'read_blob', feature: 'requests/resources', run: async ({ a }) => assert.ok((await a.read('test://static-binary')).contents[0].blob.startsWith('iVBOR')) },
  { name: 'read_template', feature: 'requests/resources', run: async ({ a }) => assert.equal((await a.read('moon://mars/2')).contents[0].text, 'moon 2 of mars') },
  { name: 'read_missing', feature: 'requests/errors', run: async ({ a }) => {
    const { code } = await failure('a missing resource', a.read('note://none'));
    assert.ok(code === -32602 || (a.era === 'legacy' && code === -32002), `code ${code}`);
  } },
  { name: 'prompt_plain', feature: 'requests/prompts', run: async ({ a }) => assert.equal((await a.prompt('farewell')).messages[0].content.text, 'Say goodbye.') },
  { name: 'prompt_arguments', feature: 'requests/prompts', run: async ({ a }) =>
    assert.equal((await a.prompt('greet', { who: 'Zoë', style: 'formal' })).messages[0].content.text, 'Greet Zoë, formal.') },
  { name: 'prompt_missing', feature: 'requests/errors', run: async ({ a }) => assert.equal((await failure('a missing prompt', a.prompt('none'))).code, -32602) },
  { name: 'complete_prompt', feature: 'requests/completion', run: async ({ a }) =>
    assert.deepEqual((await a.complete({ type: 'ref/prompt', name: 'greet' }, { name: 'style', value: 'br' })).completion.values, ['brief', 'bright']) },
  { name: 'complete_template', feature: 'requests/completion', run: async ({ a }) =>
    assert.deepEqual((await a.complete({ type: 'ref/resource', uri: 'planet://{name}' }, { name: 'name', value: 'm' })).completion.values, ['mars', 'mercury']) },
];

/** Calls a tool that waits at a gate, and opens the gate at the sign. The tool gives up after 15 s, before the call does. */
async function passGate(client, sign) {
  const name = unique('gate');
  let seen = false;
  const open = () => { if (!seen) { seen = true; client.call('open_gate', { name }).catch(() => {}); } };
  if (sign === 'log') client.onLog(p => { if (p.data?.gate === name) open(); });
  const answer = await client.call('gate', { name, sign }, { ...(sign === 'progress' && { onprogress: open }), logLevel: 'info' });
  client.onLog(() => {});
  assert.equal(said(answer), 'the gate was opened', seen ? 'the sign came too late' : 'the sign never came');
}

/** Calls countdown; returns the progress that was reported to this call. */
async function countdown(client, steps, pauseMs = 30) {
  const seen = [];
  const r = await client.call('countdown', { steps, pauseMs }, { onprogress: p => seen.push(p) });
  assert.equal(said(r), `counted ${steps}`);
  return seen;
}

const notifications = [
  { name: 'progress_order', feature: 'requests/progress', run: async ({ a }) =>
    assert.deepEqual(await countdown(a, 5), range(5).map(i => ({ progress: i + 1, total: 5, message: `step ${i + 1} of 5` }))) },
  { name: 'progress_live', feature: 'requests/progress', run: ({ a }) => passGate(a, 'progress') },
  { name: 'progress_parallel', feature: 'requests/progress', run: async ({ a }) => {
    const all = await Promise.all([2, 3, 4, 5].map(n => countdown(a, n)));
    assert.deepEqual(all.map(seen => seen.map(p => p.total)), [2, 3, 4, 5].map(n => Array(n).fill(n)));
  } },
  { name: 'log_levels', feature: 'requests/logs at a level', run: async ({ a, options: { merged } }) => {
    for (const [level, lines] of [['info', [1, 2, 3]], ['debug', [0, 1, 2, 3]], ['error', []]]) {
      await a.setLevel(level);
      const logs = await logsOf(a, () => a.call('chat', { lines: 3, tag: 'l' }, { logLevel: level }), lines.length);
      assert.deepEqual(lineNumbers(logs), lines, `at ${level}`);
      assert.ok(logs.every(l => l.logger === (merged ? 'default/fixture' : 'fixture')), 'logger');
    }
    await a.setLevel('info');
  } },
  { name: 'log_live', feature: 'requests/logs at a level', run: ({ a }) => passGate(a, 'log') },
  { name: 'log_silent', feature: 'requests/no logs unasked', era: 'modern', run: async ({ a }) =>
    assert.deepEqual(await logsOf(a, () => a.call('chat', { lines: 2, tag: 's' }), 0), [], 'messages that nobody asked for') },
];

/** Cancels a sleeping call, with `sign` only after its first progress; the server must count the cancellation. */
async function cancelled(client, sign) {
  const before = await stats(client);
  const abort = new AbortController();
  let signs = 0;
  const call = failure('the cancelled call', client.call('slow', { ms: 9000, sign }, { signal: abort.signal, ...(sign && { onprogress: () => signs++ }) }));
  await until('the call runs', async () => (await stats(client)).running > before.running);
  if (sign) await until('its progress', () => signs > 0);
  const begun = Date.now();
  abort.abort('no longer wanted');
  await call;
  assert.ok(Date.now() - begun < 1500, 'the call did not end when it was cancelled');
  await until('the server counts it', async () => (await stats(client)).cancelled > before.cancelled);
}

const concurrency = [
  { name: 'cancel_quiet', feature: 'requests/cancellation', run: ({ a }) => cancelled(a, false) },
  { name: 'cancel_streaming', feature: 'requests/cancellation', run: ({ a }) => cancelled(a, true) },
  { name: 'after_cancel', feature: 'requests/cancellation', run: async ({ a }) => assert.equal(said(await a.call('echo', { message: 'still there' })), 'Echo: still there') },
  { name: 'parallel', feature: 'requests/calls in parallel', basic: true, run: async ({ a }) => {
    const all = await Promise.all(range(20).map(i => a.call('echo', { message: `number ${i}` })));
    assert.deepEqual(all.map(said), range(20).map(i => `Echo: number ${i}`));
  } },
  { name: 'no_head_of_line', feature: 'requests/calls in parallel', run: async ({ a }) => {
    let done = false;
    const slow = a.call('slow', { ms: 800 }).finally(() => { done = true; });
    await pause(50);
    await a.call('echo', { message: 'quick' });
    assert.equal(done, false, 'the quick call waited for the slow one');
    assert.equal(said(await slow), 'slept 800');
  } },
];

/** Makes the server log a number of lines for a client; returns the received lines, each with the name of the client that called. */
async function chat(client, lines, lossy = false) {
  await client.setLevel('info');
  const call = () => client.call('chat', { lines, tag: client.name }, { logLevel: 'info' });
  return (await logsOf(client, call, lossy ? 0 : lines)).map(l => `${l.data.tag} ${l.data.line}`);
}

const apart = [
  { name: 'second_client', feature: 'isolation/two clients', basic: true, run: async w => {
    const b = await w.second();
    assert.equal(said(await b.call('echo', { message: 'two' })), 'Echo: two');
  } },
  { name: 'apart_names', feature: 'isolation/two clients', run: async w => {
    const clients = [w.a, await w.second(), w.a, w.b];
    assert.deepEqual((await Promise.all(clients.map(c => c.call('whoami', {})))).map(said), ['anna', 'boris', 'anna', 'boris']);
  } },
  { name: 'apart_progress', feature: 'isolation/progress', run: async w => {
    const [a, b] = await Promise.all([countdown(w.a, 5), countdown(await w.second(), 3)]);
    assert.deepEqual([a.map(p => p.total), b.map(p => p.total)], [Array(5).fill(5), Array(3).fill(3)]);
  } },
  { name: 'apart_logs', feature: 'isolation/logs', run: async w => {
    const b = await w.second();
    await b.setLevel('info');
    for (const [speaker, listener] of [[w.a, b], [b, w.a]]) {
      let heard;
      const foreign = await logsOf(listener, async () => { heard = await chat(speaker, 3); }, 0);
      assert.deepEqual([heard, foreign], [range(3).map(i => `${speaker.name} ${i + 1}`), []]);
    }
  } },
  { name: 'apart_logs_overlap', feature: 'isolation/logs', run: async w => {
    const clients = [w.a, await w.second()];
    const lossy = w.options['lossy-logs'];
    const logs = await Promise.all(clients.map((c, i) => chat(c, 3 - i, lossy)));
    clients.forEach((c, i) => {
      const own = range(3 - i).map(n => `${c.name} ${n + 1}`);
      assert.deepEqual(lossy ? logs[i].filter(l => !own.includes(l)) : logs[i], lossy ? [] : own);
    });
  } },
];

const closing = [
  { name: 'close', feature: 'connection/close', basic: true, run: async w => { await w.b?.close(); await w.a.close(); } },
];

export const CASES = [
  ...opening, ...lists, ...calls, ...documents, ...notifications, ...concurrency, ...apart, ...QUESTIONS, ...CHANGES, ...TASKS, ...BROADCAST, ...REST, ...PROVIDER, ...MERGED, ...closing,
];
