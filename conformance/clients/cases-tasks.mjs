// The cases about tasks, for a legacy server that has those of 2025-11-25 (fixtures/tasks.mjs). The server `tasks-…` stands behind
// Dragoman as it is by default, `drive-…` behind one with `tasks = "drive"`.
import assert from 'node:assert/strict';
import { failure, refused, said, until } from './helpers.mjs';

const driven = w => w.server.startsWith('drive-');
const v1 = w => (w.a?.task ? undefined : 'only the TypeScript SDK v1 has tasks of 2025-11-25');
const modern = w => (w.a?.era === 'modern' ? undefined : 'modern clients only');
const driver = w => modern(w) ?? (driven(w) ? undefined : 'not driven by default');
const tools = async client => Object.fromEntries((await client.page('tools/list')).tools.map(t => [t.name, t]));

/** Gives a call up once its task runs: the task must be cancelled, which the server sees when the task would have ended. */
async function givenUp(client, args) {
  const count = async () => JSON.parse(said(await client.call('tasks', {})));
  const before = await count();
  const abort = new AbortController();
  const call = failure('the cancelled call', client.call('task_required', args, { signal: abort.signal }));
  await until('the task runs', async () => (await count()).running > before.running);
  abort.abort('no longer wanted');
  await call;
  await until('the server counts it', async () => (await count()).cancelled > before.cancelled);
}

export const TASKS = [
  { name: 'task_promises', feature: 'tasks/advertised', run: async w => {
    const listed = await tools(w.a);
    if (w.a.era === 'legacy') {
      assert.deepEqual(w.a.capabilities.tasks, { list: {}, cancel: {}, requests: { tools: { call: {} } } });
      assert.equal(listed.task_required.execution.taskSupport, 'required');
      return;
    }
    assert.deepEqual([w.a.capabilities.tasks, w.a.capabilities.extensions], [undefined, undefined], 'tasks are promised and cannot be had');
    assert.ok(Object.values(listed).every(t => t.execution === undefined), 'execution is listed');
    assert.deepEqual([Boolean(listed.task_optional), Boolean(listed.task_required)], [true, driven(w)]);
  } },
  { name: 'task_required', feature: 'tasks/run as a task', needs: v1, run: async ({ a }) => {
    const { states, answer } = await a.task('task_required', { ms: 150 });
    assert.equal(said(answer), 'slept 150');
    assert.equal(states[0], 'created');
  } },
  { name: 'task_optional', feature: 'tasks/run as a task', needs: v1, run: async ({ a }) =>
    assert.equal(said((await a.task('task_optional', { ms: 50 })).answer), 'slept 50') },
  { name: 'task_asks', feature: 'tasks/questions of a task', needs: v1, run: async ({ a }) =>
    assert.equal(said((await a.task('task_asks', {})).answer), 'accept anna') },
  { name: 'task_cancelled', feature: 'tasks/cancelled and listed', needs: v1, run: async ({ a }) => {
    const cancelled = async () => JSON.parse(said(await a.call('tasks', {}))).cancelled;
    const before = await cancelled();
    const { taskId } = await a.beginTask('task_required', { ms: 400 });
    assert.ok((await a.listTasks()).some(t => t.taskId === taskId), 'it is not listed');
    assert.equal((await a.cancelTask(taskId)).status, 'cancelled');
    await until('the server counts it', async () => await cancelled() > before);
  } },
  { name: 'task_plain', feature: 'tasks/tool called without a task', run: async ({ a }) =>
    assert.equal(said(await a.call('task_optional', { ms: 50 })), 'slept 50') },
  { name: 'task_driven', feature: 'tasks/driven for a client of the other era', needs: modern, run: async w => {
    if (!driven(w)) {
      await refused(w.a.call('task_required', { ms: 50 }));
      return;
    }
    assert.equal(said(await w.a.call('task_required', { ms: 300 })), 'slept 300');
    assert.equal(said(await w.a.call('task_asks', {})), 'accept anna');
  } },
  { name: 'task_given_up', feature: 'tasks/driven for a client of the other era', needs: driver, run: ({ a }) => givenUp(a, { ms: 3000 }) },
  { name: 'task_given_up_early', feature: 'tasks/driven for a client of the other era', needs: driver,
    run: ({ a }) => givenUp(a, { ms: 3000, late: 500 }) }, // before the server has named the task
].map(test => ({ ...test, tasks: true }));
