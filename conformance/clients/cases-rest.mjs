// The cases about a service of the REST envelope (rest/service.py) behind Dragoman.
import assert from 'node:assert/strict';
import { allPages, failure, said } from './helpers.mjs';

const own = [
  { name: 'rest_introduction', feature: 'connection/server information', run: async ({ a, options: { merged } }) => {
    if (!merged) assert.deepEqual([a.info?.name, a.info?.version], ['envelope-fixture', '1.4.0']);
    for (const c of ['tools', 'prompts', 'resources', 'completions', 'logging']) assert.ok(a.capabilities[c], `capability ${c}`);
  } },
  { name: 'rest_tools', feature: 'lists/tools', run: async ({ a }) => {
    const { tools } = await a.page('tools/list');
    const add = tools.find(t => t.name === 'add');
    assert.deepEqual([add.title, add.description, add.inputSchema.required, add.outputSchema.properties.sum.type], ['Add', 'Adds two numbers', ['a', 'b'], 'number']);
  } },
  { name: 'rest_resources', feature: 'lists/resources', run: async w => {
    const resources = await allPages(w, 'resources/list', 'resources', 1);
    assert.deepEqual(resources.map(r => [r.uri, r.mimeType])[0], ['note://one', 'text/plain']);
    const templates = await allPages(w, 'resources/templates/list', 'resourceTemplates', 1);
    assert.deepEqual(templates.map(t => t.uriTemplate), ['planet://{name}', 'moon://{planet}/{index}']);
  } },
  { name: 'rest_prompts', feature: 'lists/prompts', run: async ({ a }) => {
    const { prompts } = await a.page('prompts/list');
    assert.deepEqual(prompts.find(p => p.name === 'greet').arguments.map(x => [x.name, x.required]), [['who', true], ['style', false]]);
  } },
  { name: 'rest_shapes', feature: 'requests/structured content', run: async ({ a }) => {
    for (const [kind, text, data] of [['object', '{"rows":[{"n":9007199254740993}]}', true], ['array', '[1,"two"]'], ['text', '"a line"'], ['number', '2.5'], ['no', 'false']]) {
      const r = await a.call('shape', { kind });
      assert.deepEqual([said(r), Boolean(r.structuredContent), Boolean(r.isError)], [text, Boolean(data), false], kind);
    }
    const r = await a.call('shape', { kind: 'failed' });
    assert.deepEqual([r.isError, said(r)], [true, 'it did not work']);
  } },
  { name: 'rest_codes', feature: 'requests/errors', run: async ({ a }) => {
    const fail = code => failure(code, a.call('fail', { code }));
    for (const code of ['TOOL_NOT_FOUND', 'INVALID_ARGUMENTS']) assert.equal((await fail(code)).code, -32602, code);
    for (const [code, name] of [['TIMEOUT', 'upstream_timeout'], ['SERVICE_UNAVAILABLE', 'upstream_overloaded']]) {
      const error = await fail(code);
      assert.deepEqual([error.code, error.data?.code], [-32603, name], code);
    }
    assert.equal((await fail('INTERNAL_ERROR')).code, -32603);
    const limited = await fail('RATE_LIMITED');
    assert.deepEqual([limited.code, limited.data?.retryable, limited.data?.retryAfter], [-32603, true, 9]);
    const r = await a.call('fail_with_result', {});
    assert.deepEqual([r.isError, said(r), r.structuredContent], [true, 'the whole story', { at: 3 }]);
  } },
].map(test => ({ ...test, rest: true }));

/** The cases for every server that such a service can pass: it has their tools, but no pages and no changes. */
const TOO = new Set(['structured', 'content_kinds', 'no_arguments', 'mirrored_arguments', 'tool_fails', 'tool_bad_arguments', 'read_text',
  'read_blob', 'read_template', 'read_missing', 'prompt_plain', 'prompt_arguments', 'prompt_missing', 'complete_prompt', 'complete_template',
  'progress_order', 'progress_live', 'progress_parallel', 'log_levels', 'log_live', 'log_silent', 'cancel_quiet', 'cancel_streaming',
  'after_cancel', 'no_head_of_line', 'apart_progress', 'apart_logs', 'apart_logs_overlap', 'ask_user', 'ask_declined', 'ask_dismissed',
  'ask_model', 'ask_roots', 'ask_rounds', 'ask_at_once', 'ask_parallel', 'ask_apart', 'ask_resource', 'ask_abandoned']);

/** Reports whether a case runs at a REST service. */
export const atRest = test => Boolean(test.basic || test.rest || TOO.has(test.name));

export const REST = own;
