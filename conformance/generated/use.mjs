// use.mjs FOLDER CALLS: makes calls by generated TypeScript modules, which Node.js 22.18 and later run as they are; a line of JSON for each: the
// result, or the error. CALLS is a file with a list of { module, args }.
import { readFileSync } from 'node:fs';
import path from 'node:path';

const [folder, calls] = process.argv.slice(2);
const { ToolError } = await import(path.join(folder, 'runtime.ts'));
const answers = { // those of run.mjs
  'elicitation/create': { action: 'decline' },
  'sampling/createMessage': { role: 'assistant', model: 'none', content: { type: 'text', text: 'an answer' } },
};
const onQuestion = asked => Object.fromEntries(Object.entries(asked).map(([key, one]) => [key, answers[one.method]]));
for (const { module, args } of JSON.parse(readFileSync(calls, 'utf8'))) {
  try {
    const tool = (await import(path.join(folder, 'servers', `${module}.ts`)))[path.basename(module)];
    console.log(JSON.stringify({ result: (await tool(args, { onQuestion })).raw }));
  } catch (error) {
    console.log(JSON.stringify(error instanceof ToolError ? { result: error.envelope.meta?.result ?? null, error: error.code, message: error.message } : { broken: String(error) }));
  }
}
