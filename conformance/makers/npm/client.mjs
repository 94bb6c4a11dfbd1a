// The client of the AI SDK (@ai-sdk/mcp), without a model: client.mjs TRANSPORT TARGET…
// Prints a line for each case: its name, a tab, what came of it.
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as Stdio } from '@ai-sdk/mcp/mcp-stdio';

const [kind, ...target] = process.argv.slice(2);
const say = (name, value) => console.log(`${name}\t${value}`);
const transport = kind === 'stdio' ? new Stdio({ command: target[0], args: target.slice(1), env: process.env }) : { type: kind, url: target[0] };
const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
client.onElicitationRequest(ElicitationRequestSchema, () => ({ action: 'accept', content: { name: 'anna' } }));
const text = result => (result.isError ? 'isError: ' : '') + result.content.map(part => part.text).join(' ');
const tools = await client.tools();
const call = async (name, args, options = {}) => text(await tools[name].execute(args, { toolCallId: '1', messages: [], ...options }));

say('list', Object.keys(tools).sort().join(','));
say('call', await call('echo', { text: 'hällo' }));
say('fail', await call('fail', { text: '' }));
say('ask', await call('ask', { text: '' }));
const gone = new AbortController();
const slow = call('slow', { n: 20000 }, { abortSignal: gone.signal }).then(() => 'ran on', () => 'cancelled');
setTimeout(() => gone.abort(), 500);
say('cancel', await slow);
say('afterwards', await call('echo', { text: 'still here' }));
await client.close();
process.exit(0);
