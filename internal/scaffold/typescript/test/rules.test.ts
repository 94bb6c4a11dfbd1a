// RULES.md names tests that exist.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

test('tests of rules exist', () => {
  const rows = readFileSync('RULES.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| '));
  assert.ok(rows.length > 1);
  for (const row of rows.slice(1)) {
    const named = [...row.matchAll(/`(\w+\.test\.ts)` ([^|;]+)/g)];
    assert.ok(named.length > 0, row);
    for (const [, file = '', names = ''] of named) {
      const text = readFileSync(`test/${file}`, 'utf8');
      for (const name of names.trim().split(' / ')) {
        assert.ok(text.includes(`test('${name}'`), `${file}: ${name}`);
      }
    }
  }
});
