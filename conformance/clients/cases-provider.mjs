// The cases about the two example providers (examples/provider-go, examples/provider-rust), which have the same tools, behind Dragoman.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { failure, logsOf, range, refused, said, unique, until } from './helpers.mjs';

const GREETING = 'hello://greeting';
const SILENCE = 300; // ms without unwanted notices
const language = w => w.server.replace('provider-', '');

/** Greets by a name that no other call uses; returns the greeting. */
async function greetAnew(client) {
  const word = unique('greeting');
  const greeting = said(await client.call('greet.v1', { question: `repeat ${word}` }));
  assert.equal(greeting, `Hello, ${client.name} ${word}`);
  return greeting;
}

/**
 * Counts; checks the progress that was reported to this call. The SDKs lose what they read together with the result: the last one always may be, and
 * those before it if the client is slower than the pause.
 */
async function counted(client, to, pauseMs) {
  const seen = [];
  assert.equal(said(await client.call('count.v1', { to, pause_ms: pauseMs }, { onprogress: p => seen.push(p) })), `counted to ${to}`);
  assert.deepEqual(seen.slice(0, to - 1), range(to - 1).map(i => ({ progress: i + 1, total: to, message: `at ${i + 1}` })));
}

const offered = [
  { name: 'provider_introduction', feature: 'connection/server information', run: async w => {
    const [short, long] = { go: ['hello-go', 'Hello from Go'], rust: ['hello-rs', 'Hello from Rust'] }[language(w)];
    assert.deepEqual([w.a.info?.name, w.a.info?.version, w.a.info?.title], [short, '1.0.0', long]);
    for (const c of ['tools', 'prompts', 'resources', 'completions', 'logging']) assert.ok(w.a.capabilities[c], `capability ${c}`);
    assert.equal(w.a.capabilities.resources.subscribe, true);
  } },
  { name: 'provider_tools', feature: 'lists/tools', run: async ({ a }) => {
    const { tools, nextCursor } = await a.page('tools/list');
    assert.deepEqual([tools.map(t => t.name), nextCursor], [['echo.v1', 'count.v1', 'greet.v1', 'notify.v1'], undefined]);
    const [echo, count] = tools;
    assert.deepEqual([echo.description, echo.inputSchema.required, echo.outputSchema.properties.message.type, echo.annotations.readOnlyHint],
      ['Returns the message unchanged', ['message'], 'string', true]);
    assert.deepEqual(count.inputSchema.properties.to, { type: 'integer', minimum: 1, maximum: 100 });
  } },
  { name: 'provider_resources', feature: 'lists/resources', run: async ({ a }) => {
    const { resources } = await a.page('resources/list');
    assert.deepEqual(resources.map(r => [r.uri, r.name, r.mimeType]), [[GREETING, 'greeting', 'text/plain']]);
    assert.deepEqual((await a.page('resources/templates/list')).resourceTemplates, []);
  } },
  { name: 'provider_prompts', feature: 'lists/prompts', run: async ({ a }) => {
    const { prompts } = await a.page('prompts/list');
    assert.deepEqual(prompts.map(p => [p.name, p.arguments]), [['hello-plan', [{ name: 'name', description: 'who is greeted', required: true }]]]);
  } },
];

const requests = [
  { name: 'provider_echo', feature: 'requests/structured content', run: async ({ a }) => {
    const message = 'grüße "quoted" \\ back \t tab \n line \u2028 </script> \u0001 🦊 終';
    const r = await a.call('echo.v1', { message });
    assert.deepEqual([said(r), r.structuredContent, Boolean(r.isError)], [message, { message }, false]);
  } },
  { name: 'provider_echo_200k', feature: 'requests/large bodies', run: async ({ a }) => {
    const message = `${'0123456789'.repeat(20_000)}é`;
    assert.ok(said(await a.call('echo.v1', { message })) === message, 'what came back differs');
  } },
  { name: 'provider_bad_arguments', feature: 'requests/errors', run: async ({ a }) => {
    for (const [tool, args, path] of [['echo.v1', { message: 7 }, /message/], ['count.v1', { to: 101 }, /\bto\b/], ['notify.v1', { metric: 'load' }, /value/]]) {
      const r = await a.call(tool, args);
      assert.equal(r.isError, true, tool);
      assert.match(said(r), path, tool);
    }
  } },
  { name: 'provider_event', feature: 'requests/tool call', run: async ({ a }) => assert.equal(said(await a.call('notify.v1', { metric: 'load', value: 0.5 })), 'sent') },
  { name: 'provider_read', feature: 'requests/resources', run: async ({ a }) => {
    const [{ uri, mimeType, text }] = (await a.read(GREETING)).contents;
    assert.deepEqual([uri, mimeType, /^Hello, /.test(text)], [GREETING, 'text/plain', true], text);
  } },
  { name: 'provider_prompt', feature: 'requests/prompts', run: async ({ a }) => {
    const { description, messages } = await a.prompt('hello-plan', { name: 'Zoë' });
    assert.deepEqual([description, messages], ['A greeting with a plan', [{ role: 'user', content: { type: 'text', text: 'Greet Zoë, and propose a plan for the day.' } }]]);
  } },
  { name: 'provider_complete', feature: 'requests/completion', run: async ({ a }) => {
    const complete = value => a.complete({ type: 'ref/prompt', name: 'hello-plan' }, { name: 'name', value });
    assert.deepEqual([(await complete('A')).completion.values, (await complete('x')).completion.values], [['Ada', 'Alan'], []]);
  } },
  { name: 'provider_unknown', feature: 'requests/errors', run: async ({ a }) => {
    await refused(a.call('none.v1', {}));
    const { code } = await failure('a missing resource', a.read('hello://none'));
    assert.ok(code === -32602 || (a.era === 'legacy' && code === -32002), `code ${code}`);
    assert.equal((await failure('a missing prompt', a.prompt('none'))).code, -32602);
    assert.equal((await failure('a prompt without its argument', a.prompt('hello-plan', {}))).code, -32602);
  } },
];

const running = [
  { name: 'provider_progress', feature: 'requests/progress', run: ({ a }) => counted(a, 5, 150) },
  { name: 'provider_progress_live', feature: 'requests/progress', run: async ({ a }) => {
    let done = false, echo;
    const meanwhile = async () => {
      await a.call('echo.v1', { message: 'meanwhile' });
      return done;
    };
    await a.call('count.v1', { to: 4, pause_ms: 400 }, { onprogress: () => { echo ??= meanwhile(); } });
    done = true;
    assert.ok(echo, 'no progress came before the result');
    assert.equal(await echo, false, 'the progress came with the result');
  } },
  { name: 'provider_progress_parallel', feature: 'requests/progress', run: async ({ a }) => { await Promise.all([2, 3, 4, 5].map(n => counted(a, n, 150))); } },
  { name: 'provider_logs', feature: 'requests/logs at a level', run: async w => {
    const { a } = w;
    for (const [level, lines] of [['info', 3], ['debug', 3], ['error', 0]]) {
      await a.setLevel(level);
      const logs = await logsOf(a, () => a.call('count.v1', { to: 3 }, { logLevel: level }), lines);
      assert.deepEqual(logs.map(l => [l.level, l.data]), range(lines).map(i => ['info', `counted ${i + 1}`]), `at ${level}`);
      assert.ok(logs.every(l => l.logger === (language(w) === 'go' ? 'hello-go' : 'hello-rs')), 'logger');
    }
    await a.setLevel('info');
  } },
  { name: 'provider_cancel', feature: 'requests/cancellation', run: async ({ a, options }) => {
    const heard = () => readFileSync(options.provider, 'utf8').split('count.v1 cancelled').length;
    const before = heard();
    const abort = new AbortController();
    let steps = 0;
    const call = failure('the cancelled call', a.call('count.v1', { to: 100, pause_ms: 200 }, { signal: abort.signal, onprogress: () => steps++ }));
    await until('its progress', () => steps > 0);
    const begun = Date.now();
    abort.abort('no longer wanted');
    await call;
    assert.ok(Date.now() - begun < 1500, 'the call did not end when it was cancelled');
    await until('the provider says that it was cancelled', () => heard() > before);
    assert.equal(said(await a.call('echo.v1', { message: 'still there' })), 'still there');
  } },
  { name: 'provider_parallel', feature: 'requests/calls in parallel', run: async ({ a }) => {
    const all = await Promise.all(range(20).map(i => a.call('echo.v1', { message: `number ${i}` })));
    assert.deepEqual(all.map(said), range(20).map(i => `number ${i}`));
  } },
];

const asks = (name, feature, args, answer) =>
  ({ name, about: 'question', feature: `questions/${feature}`, run: async ({ a }) => assert.equal(said(await a.call('greet.v1', args)), answer) });

const questions = [
  asks('provider_ask', 'elicitation form', {}, 'Hello, anna'),
  asks('provider_ask_declined', 'elicitation declined', { question: 'please decline' }, 'nobody to greet'),
  asks('provider_ask_dismissed', 'elicitation cancelled', { question: 'please cancel' }, 'nobody to greet'),
  asks('provider_ask_rounds', 'several rounds', { formal: true }, 'Hello, anna anna'),
  { name: 'provider_ask_apart', about: 'question', feature: 'questions/two clients', run: async w => {
    const clients = [w.a, await w.second(), w.a, w.b];
    await Promise.all(clients.map(greetAnew));
  } },
  { name: 'provider_ask_abandoned', about: 'question', feature: 'questions/call cancelled while open', run: async ({ a }) => {
    const abort = new AbortController();
    const call = failure('the cancelled call', a.call('greet.v1', { question: 'wait for ever' }, { signal: abort.signal }));
    await until('the question', () => a.waiting() > 0);
    const begun = Date.now();
    abort.abort('no longer wanted');
    await call;
    assert.ok(Date.now() - begun < 1500, 'the call did not end when it was cancelled');
    // A legacy client gets a cancellation of the question; a modern one just does not retry.
    if (a.era === 'legacy') await until('the question is withdrawn', () => a.waiting() === 0);
    a.release();
    await greetAnew(a);
  } },
];

const changes = [
  { name: 'provider_watch', feature: 'subscriptions/resources updated', run: async ({ a }) => {
    const seen = [];
    a.onUpdated(uri => seen.push(uri));
    const stop = await a.watch([GREETING]);
    try {
      const greeting = await greetAnew(a);
      await until('the update', () => seen.length > 0);
      assert.equal((await a.read(GREETING)).contents[0].text, greeting);
    } finally {
      await stop();
    }
    assert.deepEqual(seen, [GREETING]);
  } },
  { name: 'provider_watch_ended', feature: 'subscriptions/unsubscribe silences', run: async ({ a }) => {
    await (await a.watch([GREETING]))();
    await pause(100);
    const seen = [];
    a.onUpdated(uri => seen.push(uri));
    await greetAnew(a);
    await pause(SILENCE);
    assert.deepEqual(seen, [], 'updates after the end of the subscription');
  } },
  { name: 'provider_watch_apart', feature: 'subscriptions/two clients', run: async w => {
    const b = await w.second();
    const seen = { a: [], b: [] };
    w.a.onUpdated(uri => seen.a.push(uri));
    b.onUpdated(uri => seen.b.push(uri));
    const stop = await b.watch([GREETING]);
    try {
      await greetAnew(w.a);
      await until('the update of the second client', () => seen.b.length > 0);
      await pause(SILENCE);
      assert.deepEqual(seen, { a: [], b: [GREETING] });
    } finally {
      await stop();
    }
  } },
].map(test => ({ ...test, about: 'subscription' }));

/** The cases for every server that need none of its tools. */
const TOO = new Set(['connect', 'ping', 'close', 'list_bad_cursor']);

/** Reports whether a case runs at a provider. */
export const atProvider = test => Boolean(test.provider || TOO.has(test.name));

export const PROVIDER = [...offered, ...requests, ...running, ...questions, ...changes].map(test => ({ ...test, provider: true }));
