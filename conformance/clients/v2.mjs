#!/usr/bin/env node
// A client on the TypeScript SDK v2: modern, legacy, or whichever the server speaks. runner.mjs describes the options.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { responsesLater } from './helpers.mjs';
import { answers, readOptions, RECONNECTION, run, cuttableFetch } from './runner.mjs';

const MODERN = '2026-07-28';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const options = readOptions();

function transport(wire) {
  if (options.transport === 'sse') return new SSEClientTransport(new URL(options.url));
  if (options.transport === 'http') return new StreamableHTTPClientTransport(new URL(options.url), { fetch: wire.fetch, reconnectionOptions: RECONNECTION });
  const [command, ...args] = options.command;
  return new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env });
}

const negotiation = {
  modern: { mode: { pin: MODERN } },
  legacy: { mode: 'legacy' },
  auto: { mode: 'auto', probe: { timeoutMs: 4000 } },
};

/** Opens a subscriptions/listen and checks that the server honours its filter. */
async function listen(client, filter) {
  const subscription = await client.listen(filter);
  const missing = Object.keys(filter).filter(k => !subscription.honoredFilter[k]);
  if (missing.length) throw new Error(`listen: not honoured: ${missing.join(', ')}`);
  return () => subscription.close();
}

async function connect(name) {
  const client = new Client({ name, version: '1.0.0' },
    { capabilities: { sampling: { tools: {} }, elicitation: { form: {}, url: {} }, roots: {} }, versionNegotiation: negotiation[options.mode] });
  const answer = answers(name);
  client.setRequestHandler('elicitation/create', (r, ctx) => answer.elicit(r.params, ctx?.mcpReq?.signal));
  client.setRequestHandler('sampling/createMessage', r => answer.sample(r.params));
  client.setRequestHandler('roots/list', () => answer.roots());
  const cut = cuttableFetch();
  const wire = responsesLater(transport(cut));
  await client.connect(wire);
  const era = client.getProtocolEra();
  const modern = era === 'modern';
  return {
    ...answer.also, cutNext: cut.cutNext, cutStanding: cut.cutStanding,
    name, era, info: client.getServerVersion(), instructions: client.getInstructions(), capabilities: client.getServerCapabilities(),
    ping: () => client.ping(),
    page: (method, cursor) => client.request({ method, params: cursor === undefined ? {} : { cursor } }),
    call: (tool, args, { signal, onprogress, logLevel } = {}) =>
      client.callTool({ name: tool, arguments: args, ...(modern && logLevel && { _meta: { [LOG_LEVEL]: logLevel } }) }, { signal, onprogress }),
    read: uri => client.readResource({ uri }),
    prompt: (prompt, args) => client.getPrompt({ name: prompt, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    setLevel: async level => { if (!modern) await client.setLoggingLevel(level); },
    onLog: f => client.setNotificationHandler('notifications/message', n => f(n.params)),
    onUpdated: f => client.setNotificationHandler('notifications/resources/updated', n => f(n.params.uri)),
    onListChanged: f => {
      client.setNotificationHandler('notifications/tools/list_changed', () => f('tools'));
      client.setNotificationHandler('notifications/prompts/list_changed', () => f('prompts'));
      client.setNotificationHandler('notifications/resources/list_changed', () => f('resources'));
    },
    watch: async uris => {
      if (modern) return listen(client, { resourceSubscriptions: uris });
      for (const uri of uris) await client.subscribeResource({ uri });
      return async () => { for (const uri of uris) await client.unsubscribeResource({ uri }); };
    },
    watchLists: async kinds => (modern ? listen(client, Object.fromEntries(kinds.map(kind => [`${kind}ListChanged`, true]))) : async () => {}),
    close: async () => { if (!modern) await wire.terminateSession?.(); await client.close(); },
  };
}

await run(options, connect);
