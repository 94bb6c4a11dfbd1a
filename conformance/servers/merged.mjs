// All servers behind one Dragoman, as one server: its tools, prompts and calls have the names that they have there.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { resolve } from './catalogue.mjs';
import { bad, chaos } from './chaos.mjs';
import { finding } from './finding.mjs';
import { end, processesOf, serve, until, use } from './dragoman.mjs';

const READY = 90_000; // ms until all lists are read, on a busy machine: uvx, npx and JITs start at once

/** The servers of a queue as one: `members` has each, the rest is as in catalogue.mjs. */
function asOne(queue, dir) {
  mkdirSync(dir, { recursive: true });
  const members = queue.map(([server, at]) => ({ ...resolve(server, at), dir: at.dir }));
  const owners = uri => members.filter(m => m.resources?.includes(uri) || m.calls.some(c => c.uri === uri)).length;
  const name = (member, own) => `${member.name}.${own}`;
  const calls = members.flatMap(m => m.calls.filter(c => !c.uri || owners(c.uri) === 1).map(c => ({
    ...c, ...(c.tool && { tool: name(m, c.tool) }), ...(c.prompt && { prompt: name(m, c.prompt) }), once: c.once || m.inTurn,
  })));
  const lists = what => members.flatMap(m => (m[what] ?? []).map(own => name(m, own)));
  return { name: 'merged', dir, members, tools: lists('tools'), prompts: lists('prompts'), calls };
}

/** A call of a tool of each member whose calls do not disturb each other. */
const quick = server => server.members.filter(m => !m.inTurn).flatMap(m => server.calls.find(c => c.tool?.startsWith(`${m.name}.`) && !c.once) ?? [])
  .map(c => ({ ...c, args: JSON.parse(JSON.stringify(c.args).replaceAll('${WHO}', 'chaos1')), expect: c.expect.replaceAll('${WHO}', 'chaos1') }));

/** Whether the lists of all members are read, as a list of tools says. */
async function complete(url) {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'servers', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} };
  const response = await fetch(url, {
    method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }),
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
  });
  const { result } = await response.json();
  return { tools: result.tools.length, late: (result._meta['io.dragoman/servers'] ?? []).map(s => s.name) };
}

/** Uses all servers of a queue at one endpoint with each client. `say(client, check, wrong, detail)` gets the results. */
export async function examineMerged(binary, queue, clients, dir, say) {
  const server = asOne(queue, dir);
  const spec = path.join(dir, 'spec.json');
  writeFileSync(spec, JSON.stringify({ ...server, members: undefined }));
  const begun = performance.now();
  const dragoman = await serve(binary, { ...server, members: [...server.members, ...bad(dir)] }, 'merged');
  try {
    let at;
    const ready = await until(async () => (at = await complete(dragoman.url)).late.length === 0, READY);
    say('dragoman', 'lists of all', ready ? undefined : `not read: ${at.late}`, `${at.tools} tools of ${server.members.length} servers after ${Math.round(performance.now() - begun)} ms`);
    await finding(dragoman.url, server.members, say);
    for (const process of processesOf(clients)) {
      for (const [word, client, check, detail] of await use(process, dragoman.url, spec)) say(client, check, word === 'ok' ? undefined : detail, detail);
    }
    const stdio = JSON.stringify([binary, 'stdio', '--config', path.join(dir, 'merged.json')]);
    for (const [word, client, check, detail] of await use('v1-stdio', stdio, spec)) say(client, check, word === 'ok' ? undefined : detail, detail);
    await chaos(dragoman.url, quick(server), say);
    dragoman.child.kill('SIGTERM');
    const [code] = await dragoman.ended;
    const gone = await until(() => dragoman.watch.alive().length === 0, 5000);
    say('dragoman', 'SIGTERM', code === 0 && gone ? undefined : `exit ${code}, alive: ${dragoman.watch.names(dragoman.watch.alive())}`, `${dragoman.watch.peak} processes at most`);
  } finally {
    end(dragoman);
  }
}
