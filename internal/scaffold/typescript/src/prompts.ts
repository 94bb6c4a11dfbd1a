// The prompts. Add one by calling server.prompt.
import type { Server } from './server.js';

/** Register the prompts of this module. */
export function register(server: Server): void {
  server.prompt({
    name: 'code_review',
    description: 'Review code, with a focus.',
    parameters: {
      code: { type: 'string', description: 'the code to review' },
      language: { type: 'string', description: 'its language', default: 'python' },
      focus: {
        type: 'array',
        description: 'what to look at, as JSON: ["security"]',
        default: ['security', 'performance'],
      },
    },
    template: [
      { role: 'system', text: 'You are an expert code reviewer. Name line and fix.' },
      { role: 'user', text: 'Review this {language} code focusing on {focus}:\n\n{code}' },
    ],
    examples: [
      {
        arguments: { code: 'eval(input())', focus: '["security"]' },
        contains: 'Review this python code focusing on security:\n\neval(input())',
      },
    ],
  });
}
