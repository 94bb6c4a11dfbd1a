// The rules of tools, resources and prompts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod/v4';
import {
  CapabilityError,
  checkPrompt,
  checkResource,
  checkTool,
  fill,
} from '../src/capabilities.js';
import type { ParameterSpec, Prompt, Resource, Tool } from '../src/capabilities.js';

const tool = (changes: Partial<Tool> = {}): Tool => ({
  name: 't',
  description: 'd',
  inputSchema: z.object({}),
  handler: () => Promise.resolve(''),
  ...changes,
});
const resource = (changes: Partial<Resource> = {}): Resource => ({
  name: 'r',
  description: 'd',
  uriPattern: 'x://{id}',
  mimeType: 'text/plain',
  isStatic: false,
  fetch: () => Promise.resolve(''),
  ...changes,
});
const prompt = (changes: Partial<Prompt> = {}): Prompt => ({
  name: 'p',
  description: 'd',
  parameters: { a: { type: 'string', description: 'a text', default: 'x' } },
  template: [{ role: 'user', text: '{a}' }],
  ...changes,
});

const checks: ((changes: object) => void)[] = [
  (changes) => {
    checkTool(tool(changes));
  },
  (changes) => {
    checkResource(resource(changes));
  },
  (changes) => {
    checkPrompt(prompt(changes));
  },
];

test('names, descriptions and timeouts', () => {
  for (const check of checks) {
    check({ name: 'a'.repeat(64), description: 'd'.repeat(500), timeout: 300 });
    for (const wrong of [
      { name: 'Name' },
      { name: '1a' },
      { name: 'a-b' },
      { name: 'a\n' },
      { name: '' },
      { name: 'a'.repeat(65) },
      { description: ' ' },
      { description: 'd'.repeat(501) },
      { timeout: 0 },
      { timeout: 301 },
      { timeout: 1.5 },
    ]) {
      assert.throws(
        () => {
          check(wrong);
        },
        CapabilityError,
        JSON.stringify(wrong),
      );
    }
  }
});

test('input schemas and retries', () => {
  const wrong: Partial<Tool>[] = [
    { inputSchema: z.object({ a: z.date() }) },
    { retry: { attempts: 0, delaySeconds: 0 } },
    { retry: { attempts: 11, delaySeconds: 0 } },
    { retry: { attempts: 2, delaySeconds: -1 } },
    { retry: { attempts: 2, delaySeconds: 301 } },
  ];
  checkTool(tool({ retry: { attempts: 1, delaySeconds: 0 } }));
  checkTool(tool({ retry: { attempts: 10, delaySeconds: 300 } }));
  for (const changes of wrong)
    assert.throws(() => {
      checkTool(tool(changes));
    }, CapabilityError);
});

test('URI patterns and MIME types', () => {
  checkResource(resource({ uriPattern: 'x://fixed', isStatic: true }));
  checkResource(resource({ uriPattern: 'x://a{/path*}{?q}' }));
  for (const mimeType of ['application/vnd.api+json', 'text/plain; charset=utf-8'])
    checkResource(resource({ mimeType }));
  const wrong: Partial<Resource>[] = [
    { uriPattern: 'x://{id' },
    { uriPattern: 'no-scheme-{id}' },
    { uriPattern: 'x://without-variables' },
    { uriPattern: 'x://{id}', isStatic: true },
    { mimeType: 'text' },
    { mimeType: 'text/plain\n' },
  ];
  for (const changes of wrong) {
    assert.throws(
      () => {
        checkResource(resource(changes));
      },
      CapabilityError,
      JSON.stringify(changes),
    );
  }
});

test('placeholders, templates, roles, defaults and examples', () => {
  checkPrompt(prompt({ examples: [{ arguments: { a: 'is here' }, contains: 'is here' }] }));
  const wrong: object[] = [
    { template: [] },
    { parameters: {} },
    { template: [{ role: 'user', text: '{a} {unknown}' }] },
    { template: [{ role: 'user', text: '{constructor}' }] },
    { template: [{ role: 'robot', text: 'x' }] },
    { parameters: { a: { type: 'number', description: 'n', default: '1' } } },
    { examples: [{ arguments: {}, contains: 'never' }] },
  ];
  for (const changes of wrong) {
    assert.throws(
      () => {
        checkPrompt(prompt(changes));
      },
      CapabilityError,
      JSON.stringify(changes),
    );
  }
});

const typed = (type: ParameterSpec['type']) =>
  prompt({ parameters: { a: { type, description: 'd' } } });

test('parameters have types', () => {
  for (const [type, text, want] of [
    ['string', '5', '5'],
    ['number', '1.5', '1.5'],
    ['boolean', 'true', 'true'],
    ['array', '["x", "y"]', 'x, y'],
    ['array', '[1,2]', '[1,2]'],
    ['object', '{"k":1}', '{"k":1}'],
  ] as const) {
    assert.deepEqual(fill(typed(type), { a: text }), [{ role: 'user', text: want }]);
  }
  for (const [type, text] of [
    ['number', 'five'],
    ['number', 'true'],
    ['boolean', '1'],
    ['array', 'x, y'],
    ['object', '[]'],
    ['object', 'null'],
  ] as const) {
    assert.throws(() => fill(typed(type), { a: text }), /is not a .*; fix: write it as JSON/);
  }
});

test('arguments', () => {
  assert.deepEqual(fill(prompt(), {}), [{ role: 'user', text: 'x' }]);
  assert.deepEqual(fill(prompt(), { a: '{a} $& {b}' }), [{ role: 'user', text: '{a} $& {b}' }]);
  assert.throws(() => fill(prompt(), { b: '1' }), /unknown argument b/);
  assert.throws(() => fill(typed('string'), {}), /a is missing/);
});

test('the role system becomes user', () => {
  const roles = ['system', 'user', 'assistant'] as const;
  const made = prompt({ template: roles.map((role) => ({ role, text: 'x' })) });
  assert.deepEqual(
    fill(made, {}).map(({ role }) => role),
    ['user', 'user', 'assistant'],
  );
});
