import ts from 'typescript-eslint';

export default ts.config(ts.configs.strictTypeChecked, {
  languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: process.cwd() } },
});
