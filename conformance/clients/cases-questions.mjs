// The cases in which the server asks the client something: the user (elicitation), the model (sampling), or for its roots.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { failure, legacyClient, legacyServer, named, range, said, unique, until } from './helpers.mjs';

const asks = (name, feature, tool, args, answer) =>
  ({ name, feature: `questions/${feature}`, run: async ({ a }) => assert.equal(said(await a.call(tool, args)), answer) });

const single = [
  asks('ask_user', 'elicitation form', 'ask_user', { question: 'who?' }, 'accept anna'),
  asks('ask_declined', 'elicitation declined', 'ask_user', { question: 'please decline' }, 'decline -'),
  asks('ask_dismissed', 'elicitation cancelled', 'ask_user', { question: 'please cancel' }, 'cancel -'),
  { name: 'ask_url', feature: 'questions/elicitation url', run: async ({ a }) => {
    assert.equal(said(await a.call('ask_url', {})), 'the user said accept');
    assert.deepEqual(a.visited, ['https://example.com/consent?for=anna']);
  } },
  asks('ask_model', 'sampling', 'ask_model', { prompt: 'ping?' }, 'anna heard ping?'),
  asks('ask_model_tools', 'sampling with tools', 'ask_model_tools', { word: 'fox' }, 'anna heard fox is an animal'),
  asks('ask_roots', 'roots', 'ask_roots', {}, 'file:///home/anna'),
];

const several = [
  asks('ask_rounds', 'several rounds', 'ask_rounds', {}, 'anna: anna heard a poem'),
  asks('ask_at_once', 'several at once', 'ask_at_once', {}, 'anna: anna heard a riddle'),
  { name: 'ask_parallel', feature: 'questions/parallel calls', run: async ({ a }) => {
    const all = await Promise.all(range(4).map(i => (i % 2 ? a.call('ask_model', { prompt: `m${i}` }) : a.call('ask_user', { question: `repeat u${i}` }))));
    assert.deepEqual(all.map(said), ['accept anna u0', 'anna heard m1', 'accept anna u2', 'anna heard m3']);
  } },
  { name: 'ask_apart', feature: 'questions/two clients', run: async w => {
    const clients = [w.a, await w.second(), w.a, w.b];
    const all = await Promise.all(clients.map(c => c.call('ask_rounds', {})));
    assert.deepEqual(all.map(said), clients.map(c => `${c.name}: ${c.name} heard a poem`));
  } },
];

/**
 * Makes the server ask outside any call, and checks the outcome at once or after `quiet` milliseconds without a call.
 * A modern client cannot be asked outside a call: then the server must get an error.
 */
async function later(client, quiet) {
  const key = unique('later');
  await client.call('ask_later', { key });
  await pause(quiet);
  const heard = await until('the outcome', async () => {
    const text = said(await client.call('heard', { key }));
    return text !== 'nothing yet' && text;
  });
  const answered = heard === 'file:///home/anna';
  const refused = client.era === 'modern' && /^refused: -\d+$/.test(heard);
  assert.ok(client.era === 'legacy' || quiet === 0 ? answered || refused : refused, heard);
}

const elsewhere = [
  { name: 'ask_prompt', feature: 'questions/in prompts/get', run: async ({ a }) =>
    assert.match((await a.prompt('test_input_required_result_prompt')).messages[0].content.text, /^Context: /) },
  { name: 'ask_resource', feature: 'questions/in resources/read', run: async ({ a }) =>
    assert.equal((await a.read('note://asked')).contents[0].text, 'a note for anna') },
  { name: 'ask_later', feature: 'questions/outside any call', needs: legacyServer, run: ({ a }) => later(a, 1000) },
  { name: 'ask_later_busy', feature: 'questions/outside any call', needs: legacyServer, run: ({ a }) => later(a, 0) },
];

const lifetime = [
  { name: 'ask_abandoned', feature: 'questions/call cancelled while open', run: async ({ a }) => {
    const abort = new AbortController();
    const call = failure('the cancelled call', a.call('ask_user', { question: 'wait for ever' }, { signal: abort.signal }));
    await until('the question', () => a.waiting() > 0);
    const begun = Date.now();
    abort.abort('no longer wanted');
    await call;
    assert.ok(Date.now() - begun < 1500, 'the call did not end when it was cancelled');
    // A legacy client gets a cancellation of the question; a modern one just does not retry.
    if (a.era === 'legacy') await until('the question is withdrawn', () => a.waiting() === 0);
    a.release();
    assert.equal(said(await a.call('ask_user', { question: 'who?' })), 'accept anna');
  } },
  { name: 'ask_progress', feature: 'questions/progress across rounds', run: async w => {
    const seen = [];
    assert.equal(said(await w.a.call('ask_progress', {}, { onprogress: p => seen.push(p.progress) })), 'accept, done');
    assert.equal(seen.at(-1), 4, `progress ${seen}`);
    // Each round of a modern server counts from the beginning. For a legacy client all rounds are one call, whose progress must grow.
    if (legacyClient(w) === undefined && legacyServer(w)) assert.deepEqual(seen, [...new Set(seen)].sort((x, y) => x - y), 'progress went back');
  } },
];

/** Cases for the server from npm, which has its own tools that ask. */
const npm = [
  { name: 'npm_elicitation', feature: 'questions/elicitation form', run: async ({ a }) =>
    assert.match(said(await a.call('trigger-elicitation-request', {})), /provided the requested information/) },
  { name: 'npm_sampling', feature: 'questions/sampling', run: async ({ a }) =>
    assert.match(said(await a.call('trigger-sampling-request', { prompt: 'ping?' })), /anna heard/) },
  { name: 'npm_roots', feature: 'questions/roots', run: async ({ a }) =>
    assert.match(said(await a.call('get-roots-list', {})), /file:\/\/\/home\/anna/) },
].map(test => ({ ...test, npm: true }));

export const QUESTIONS = [...single, ...several, ...elsewhere, ...lifetime, ...npm].map(named('question'));
