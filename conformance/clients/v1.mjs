#!/usr/bin/env node
// A legacy client on the TypeScript SDK v1, over streamable HTTP, HTTP+SSE or stdio. runner.mjs describes the options.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, CreateTaskResultSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { responsesLater } from './helpers.mjs';
import { answers, readOptions, RECONNECTION, run, cuttableFetch } from './runner.mjs';

const options = readOptions();

function transport(wire) {
  if (options.transport === 'sse') return new SSEClientTransport(new URL(options.url));
  if (options.transport === 'http') return new StreamableHTTPClientTransport(new URL(options.url), { fetch: wire.fetch, reconnectionOptions: RECONNECTION });
  const [command, ...args] = options.command;
  return new StdioClientTransport({ command, args, stderr: 'inherit', env: { ...getDefaultEnvironment(), ...process.env } });
}

/** Calls a tool as a task and waits for its end; resolves to { states, answer }. */
async function runTask(client, tool, args) {
  const states = [];
  for await (const message of client.experimental.tasks.callToolStream({ name: tool, arguments: args }, undefined, { task: {} })) {
    if (message.type === 'error') throw message.error;
    if (message.type === 'result') return { states, answer: message.result };
    states.push(message.type === 'taskCreated' ? 'created' : message.task.status);
  }
  throw new Error('the task ended without a result');
}

async function connect(name) {
  const client = new Client({ name, version: '1.0.0' }, { capabilities: { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: {} } });
  const answer = answers(name);
  client.setRequestHandler(ElicitRequestSchema, (r, { signal }) => answer.elicit(r.params, signal));
  client.setRequestHandler(CreateMessageRequestSchema, r => answer.sample(r.params));
  client.setRequestHandler(ListRootsRequestSchema, () => answer.roots());
  const cut = cuttableFetch();
  const wire = responsesLater(transport(cut));
  await client.connect(wire);
  return {
    ...answer.also, cutNext: cut.cutNext, cutStanding: cut.cutStanding,
    name, era: 'legacy', info: client.getServerVersion(), instructions: client.getInstructions(), capabilities: client.getServerCapabilities(),
    ping: () => client.ping(),
    page: (method, cursor) => ({
      'tools/list': p => client.listTools(p), 'prompts/list': p => client.listPrompts(p),
      'resources/list': p => client.listResources(p), 'resources/templates/list': p => client.listResourceTemplates(p),
    })[method](cursor === undefined ? {} : { cursor }),
    call: (tool, args, { signal, onprogress } = {}) => client.callTool({ name: tool, arguments: args }, undefined, { signal, onprogress }),
    read: uri => client.readResource({ uri }),
    prompt: (prompt, args) => client.getPrompt({ name: prompt, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    setLevel: level => client.setLoggingLevel(level),
    onLog: f => client.setNotificationHandler(LoggingMessageNotificationSchema, n => f(n.params)),
    onUpdated: f => client.setNotificationHandler(ResourceUpdatedNotificationSchema, n => f(n.params.uri)),
    onListChanged: f => {
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => f('tools'));
      client.setNotificationHandler(PromptListChangedNotificationSchema, () => f('prompts'));
      client.setNotificationHandler(ResourceListChangedNotificationSchema, () => f('resources'));
    },
    watch: async uris => {
      for (const uri of uris) await client.subscribeResource({ uri });
      return async () => { for (const uri of uris) await client.unsubscribeResource({ uri }); };
    },
    task: (tool, args) => runTask(client, tool, args),
    beginTask: async (tool, args) => (await client.request({ method: 'tools/call', params: { name: tool, arguments: args, task: {} } }, CreateTaskResultSchema)).task,
    listTasks: async () => (await client.experimental.tasks.listTasks()).tasks,
    cancelTask: id => client.experimental.tasks.cancelTask(id),
    watchLists: async () => async () => {},
    close: async () => { await wire.terminateSession?.(); await client.close(); },
  };
}

await run(options, connect);
