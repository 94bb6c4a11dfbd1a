// The cases about change notices, and about event streams that break or are closed.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { allPages, legacyHttp, named, range, said, until, WATCHED } from './helpers.mjs';

const SILENCE = 300; // ms without unwanted notices
const PART = `${WATCHED}/part`;
const touch = client => client.call('test_trigger_resource_update', {});

/** Records the notices to a client: { updated: URIs, lists: kinds }. */
function notices(client) {
  const seen = { updated: [], lists: [] };
  client.onUpdated(uri => seen.updated.push(uri));
  client.onListChanged(kind => seen.lists.push(kind));
  return seen;
}

/** Runs `f` while `watches`, promises of `watch` or `watchLists`, last; ends them in any case. */
async function during(watches, f) {
  const stops = await Promise.all(watches);
  try {
    await f();
  } finally {
    for (const stop of stops) await stop();
  }
}

const resources = [
  { name: 'watch_promised', feature: 'subscriptions/advertised', run: ({ a }) => {
    const { tools, prompts, resources: r } = a.capabilities;
    assert.deepEqual([tools.listChanged, prompts.listChanged, r.listChanged, r.subscribe], [true, true, true, true]);
  } },
  { name: 'watch_resource', feature: 'subscriptions/resources updated', run: async ({ a }) => {
    const seen = notices(a);
    await during([a.watch([WATCHED])], async () => {
      await touch(a);
      await until('the update', () => seen.updated.length > 0);
      assert.deepEqual(seen.updated, [WATCHED]);
    });
  } },
  { name: 'watch_ended', feature: 'subscriptions/unsubscribe silences', run: async ({ a }) => {
    await during([a.watch([WATCHED])], () => {});
    await pause(100);
    const seen = notices(a);
    await touch(a);
    await pause(SILENCE);
    assert.deepEqual(seen.updated, [], 'updates after the end of the subscription');
  } },
  { name: 'watch_part', feature: 'subscriptions/sub-resources', run: async ({ a }) => {
    const seen = notices(a);
    await during([a.watch([WATCHED])], async () => {
      await a.call('touch_part', {});
      await until('the update of a part', () => seen.updated.includes(PART), 2500); // never, where known.tsv says so
    });
  } },
  { name: 'watch_two', feature: 'subscriptions/several resources', run: async ({ a }) => {
    const seen = notices(a);
    const told = async when => {
      await pause(100);
      seen.updated.length = 0;
      await touch(a);
      await until(`the update ${when}`, () => seen.updated.includes(WATCHED));
    };
    await during([a.watch([WATCHED])], async () => {
      await during([a.watch(['note://two'])], () => told('after a second subscription'));
      await told('after the second subscription ended');
    });
  } },
  { name: 'watch_later', feature: 'subscriptions/outside any call', run: async ({ a }) => {
    const seen = notices(a);
    await during([a.watch([WATCHED])], async () => {
      await a.call('touch_later', { ms: 200 });
      await until('the update when nobody calls', () => seen.updated.length > 0);
    });
  } },
];

/** Shows and hides the entry that is listed only sometimes. A notice of `kind` must follow each time, and the list must have changed. */
async function flips(client, kind, tool) {
  const seen = notices(client);
  const method = `${kind}/list`;
  const count = async () => {
    let all = 0;
    for (let cursor, first = true; first || cursor !== undefined; first = false) {
      const page = await client.page(method, cursor);
      all += page[kind].length;
      cursor = page.nextCursor;
    }
    return all;
  };
  const before = await count();
  await during([client.watchLists([kind])], async () => {
    for (const change of [1, 2]) {
      seen.lists.length = 0;
      await client.call(tool, {});
      await until(`${kind}/list_changed, ${change}`, () => seen.lists.includes(kind));
      assert.equal(Math.abs(await count() - before), change === 1 ? 1 : 0, `${method} after change ${change}`);
    }
  });
}

const lists = [
  { name: 'watch_tools', feature: 'subscriptions/tools list changed', run: ({ a }) => flips(a, 'tools', 'test_trigger_tool_change') },
  { name: 'watch_prompts', feature: 'subscriptions/prompts list changed', run: ({ a }) => flips(a, 'prompts', 'test_trigger_prompt_change') },
  { name: 'watch_resources', feature: 'subscriptions/resources list changed', run: ({ a }) => flips(a, 'resources', 'flip_resources') },
];

const apart = [
  { name: 'watch_apart', feature: 'subscriptions/two clients', run: async w => {
    const b = await w.second();
    const [noticesA, noticesB] = [notices(w.a), notices(b)];
    await during([b.watch([WATCHED])], async () => {
      await touch(w.a);
      await until('the update of the second client', () => noticesB.updated.length > 0);
      await pause(SILENCE);
      assert.deepEqual([noticesA.updated, noticesB.updated], [[], [WATCHED]]);
      await during([w.a.watch([WATCHED])], async () => {
        await pause(100);
        noticesA.updated.length = noticesB.updated.length = 0;
        await touch(b);
        await until('the update of both', () => noticesA.updated.length > 0 && noticesB.updated.length > 0);
      });
    });
  } },
  { name: 'listen_two', feature: 'subscriptions/several listens', era: 'modern', run: async ({ a }) => {
    const seen = notices(a);
    const change = async () => { // its second run undoes the first
      await a.call('test_trigger_tool_change', {});
      await touch(a);
    };
    await during([a.watch([WATCHED])], async () => {
      await during([a.watchLists(['tools'])], async () => {
        await change();
        await until('both listens', () => seen.lists.length > 0 && seen.updated.length > 0);
      });
      await pause(100);
      seen.lists.length = seen.updated.length = 0;
      await change();
      await until('the listen that is left', () => seen.updated.length > 0);
      await pause(SILENCE);
      assert.deepEqual([seen.lists, seen.updated], [[], [WATCHED]], 'after one listen was closed');
    });
  } },
];

const streams = [
  { name: 'stream_closed', feature: 'streams/closed by the server', run: async ({ a }) =>
    assert.equal(said(await a.call('test_reconnection', {})), 'The answer came after the stream had been closed.') },
  { name: 'resume_call', feature: 'streams/resumption of a call', needs: legacyHttp, run: async ({ a }) => {
    const seen = [];
    const cut = a.cutNext(2);
    const answer = await a.call('countdown', { steps: 6, pauseMs: 60 }, { onprogress: p => seen.push(p.progress) });
    assert.equal(said(answer), 'counted 6');
    assert.ok(cut.done(), 'the stream was never cut');
    assert.deepEqual(seen, range(6).map(i => i + 1), 'progress across the cut');
  } },
  { name: 'resume_quiet', feature: 'streams/resumption of a call', needs: legacyHttp, run: async ({ a }) => {
    const cut = a.cutNext(1);
    let steps = 0;
    const all = await Promise.all([
      a.call('slow', { ms: 900, sign: true }, { onprogress: () => steps++ }), a.call('echo', { message: 'meanwhile' }),
    ]);
    assert.deepEqual([all.map(said), cut.done(), steps], [['slept 900', 'Echo: meanwhile'], true, 1]);
  } },
  { name: 'resume_notices', feature: 'streams/resumption of notices', needs: legacyHttp, run: async ({ a }) => {
    const seen = notices(a);
    await during([a.watch([WATCHED])], async () => {
      await touch(a);
      await until('an update before the cut', () => seen.updated.length === 1);
      a.cutStanding();
      await touch(a);
      await until('the update from before the reconnect', () => seen.updated.length === 2);
    });
  } },
];

/** Cases for the server from npm. */
const npm = [
  { name: 'npm_progress', feature: 'requests/progress', run: async ({ a }) => {
    const seen = [];
    await a.call('trigger-long-running-operation', { duration: 0.6, steps: 3 }, { onprogress: p => seen.push(p.progress) });
    assert.deepEqual(seen, [1, 2, 3]);
  } },
  { name: 'npm_pages', feature: 'lists/tools', run: async w => assert.ok((await allPages(w, 'tools/list', 'tools', 1)).length > 8) },
].map(test => ({ ...test, npm: true }));

export const CHANGES = [...resources, ...lists, ...apart].map(named('subscription')).concat(streams, npm);
