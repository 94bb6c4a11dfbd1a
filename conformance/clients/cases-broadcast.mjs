// The cases for a server that sends what is for one session to all of them (supergateway over HTTP+SSE). Dragoman gives it one session at a
// time: what that makes impossible must be refused, and nobody may get what is another's.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { failure, range, said, unique, until, WATCHED } from './helpers.mjs';

/** Reports whether a case cannot pass at such a server: change notices, and questions outside any call, name no session. */
export const aside = test => test.about === 'subscription' || /^(ask_later|ask_later_busy|resume_notices)$/.test(test.name);

export const BROADCAST = [
  { name: 'cast_answers', feature: 'broadcast/own answers', run: async w => {
    const clients = [w.a, await w.second()];
    const wanted = range(20).map(i => `${clients[i % 2].name} ${i}`);
    assert.deepEqual((await Promise.all(wanted.map((message, i) => clients[i % 2].call('echo', { message })))).map(said), wanted.map(m => `Echo: ${m}`));
  } },
  { name: 'cast_question', feature: 'broadcast/question beside a slow call', run: async ({ a }) => {
    const slow = a.call('slow', { ms: 1500 });
    const asked = a.call('ask_user', { question: 'who?' });
    assert.deepEqual([said(await asked), said(await slow)], ['accept anna', 'slept 1500']);
  } },
  { name: 'cast_turns', feature: 'broadcast/question beside another client', run: async w => {
    const b = await w.second();
    const [slow, asked] = [w.a.call('slow', { ms: 700 }), b.call('ask_rounds', {})];
    assert.deepEqual([said(await slow), said(await asked)], ['slept 700', 'boris: boris heard a poem']);
  } },
  { name: 'cast_outside', feature: 'broadcast/question outside any call', run: async ({ a }) => {
    const key = unique('outside');
    await a.call('ask_later', { key });
    await pause(1000); // it asks after 150 ms: in a call that runs then, the question would be that call's
    const heard = await until('the outcome', async () => {
      const text = said(await a.call('heard', { key }));
      return text !== 'nothing yet' && text;
    });
    assert.match(heard, /^refused: -\d+$/);
  } },
  { name: 'cast_watch', feature: 'broadcast/subscription refused', run: async ({ a }) => {
    const { message } = await failure('a subscription', a.watch([WATCHED]));
    assert.match(message, a.era === 'modern' ? /not honoured: resourceSubscriptions/ : /does not have the capability resources.subscribe/);
  } },
].map(test => ({ ...test, broadcast: true }));
