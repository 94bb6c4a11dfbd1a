// The cases about the servers that stand beside the fixture with --merged (fixtures/other.mjs).
import assert from 'node:assert/strict';
import { said } from './helpers.mjs';

const OTHERS = ['before', 'later'];

export const MERGED = [
  { name: 'merged_calls', feature: 'merge/calls of every server', run: async ({ a }) => {
    const all = await Promise.all([...OTHERS.map(n => a.call(`${n}_say`, { word: 'hi' })), a.call('echo', { message: 'hi' })]);
    assert.deepEqual(all.map(said), ['before: hi', 'later: hi', 'Echo: hi']);
  } },
  { name: 'merged_documents', feature: 'merge/documents of every server', run: async ({ a }) => {
    for (const n of OTHERS) {
      assert.equal((await a.prompt(`${n}_prompt`)).messages[0].content.text, `Think of ${n}.`);
      assert.deepEqual((await a.read(`${n}://page`)).contents, [{ uri: `${n}://page`, text: `a page of ${n}` }]);
      assert.equal((await a.read(`${n}://leaf/3`)).contents[0].text, `leaf 3 of ${n}`);
    }
  } },
].map(test => ({ ...test, merged: true }));
