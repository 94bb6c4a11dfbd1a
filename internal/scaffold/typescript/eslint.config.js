import js from '@eslint/js';
import ts from 'typescript-eslint';

export default ts.config({ ignores: ['dist/'] }, js.configs.recommended, {
  files: ['**/*.ts'],
  extends: [ts.configs.strictTypeChecked],
  languageOptions: { parserOptions: { projectService: true } },
  rules: {
    '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    // node:test awaits what its functions return.
    '@typescript-eslint/no-floating-promises': [
      'error',
      { allowForKnownSafeCalls: [{ from: 'package', name: ['test'], package: 'node:test' }] },
    ],
  },
});
