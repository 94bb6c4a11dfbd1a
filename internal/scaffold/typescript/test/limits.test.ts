// Slots, queue, memory and rate.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as limits from '../src/limits.js';
import { Event } from './helpers.js';

test('100 run, 1,000 wait, and the next is refused', async () => {
  const gate = new limits.Gate();
  assert.equal(gate.memory, 100 * 1024 * 1024);
  assert.equal(limits.SHUTDOWN_SECONDS, 30);
  let running = 0;
  let most = 0;
  const release = new Event();
  const one = async () => {
    const ticket = await gate.enter();
    most = Math.max(most, ++running);
    await release.happened;
    running--;
    ticket.release();
    ticket.release(); // once is enough
  };
  const all = Array.from({ length: 1100 }, one);
  assert.equal(gate.accepted, 1100);
  await assert.rejects(gate.enter(), /1100 requests run or wait/);
  release.set();
  await gate.idle();
  await Promise.all(all);
  assert.deepEqual([most, gate.accepted, running], [100, 0, 0]);
  (await gate.enter()).release();
});

test('memory in flight', async () => {
  const gate = new limits.Gate(2, 0, 10);
  const [first, second] = [await gate.enter(), await gate.enter()];
  first.hold(6);
  second.hold(4);
  assert.throws(() => {
    second.hold(1);
  }, limits.OverloadedError);
  first.release();
  second.hold(6);
  second.release();
  second.hold(100); // has ended, and holds nothing
  assert.equal(gate.held, 0);
});

test('rate and burst', () => {
  let now = 100;
  const rate = new limits.RateLimiter(60, 3, () => now);
  const take = (count: number) => Array.from({ length: count }, () => rate.take('a'));
  assert.deepEqual(take(4), [0, 0, 0, 1]);
  assert.equal(rate.take('b'), 0);
  now += 1;
  assert.deepEqual(take(2), [0, 1]);
  now += 3600;
  assert.deepEqual(take(4), [0, 0, 0, 1]);
});

test('the rate says when to try again', () => {
  let now = 0;
  const rate = new limits.RateLimiter(4, 1, () => now);
  assert.equal(rate.take('a'), 0);
  assert.equal(rate.take('a'), 15);
  now += 15;
  assert.equal(rate.take('a'), 0);
});
