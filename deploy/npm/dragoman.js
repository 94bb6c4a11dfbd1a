#!/usr/bin/env node
// Runs the binary in the package of this system, with our arguments, standard streams and signals, and ends as it ends. Node cannot replace
// itself by another program, so this process stays as its parent.
'use strict';
const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const path = require('node:path');

const check = 1000; // ms between looks for npm

const windows = process.platform === 'win32';
const own = require('../package.json');
const name = `${own.name}-${process.platform}-${process.arch}`;

function fail(message) {
  process.stderr.write(`dragoman: ${message}\n`);
  process.exit(1);
}

function binary() {
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', windows ? 'dragoman.exe' : 'dragoman');
  } catch {
    return fail(`the package ${name}, which has the binary for this system, is not installed; fix: install without --omit=optional, ` +
      'and without a lock file of another system; if npm finds no such package, there is no binary for this system');
  }
}

// parentOf returns the parent of a process, on Linux.
function parentOf(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) \S+ /s, '').split(' ')[0]);
  } catch {
    return 0;
  }
}

// A terminal sends Ctrl-C to the binary, too; it takes what comes twice for once. On Windows only a console sends signals, and kill is no signal.
let passed = false;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', ...(windows ? [] : ['SIGQUIT'])];
for (const signal of signals) {
  process.on(signal, () => {
    passed ||= signal !== 'SIGHUP'; // which reads the configuration again
    if (!windows) child.kill(signal);
  });
}
const env = { ...process.env, DRAGOMAN_PARENT: String(process.pid) }; // it ends with us even if we are killed
if (process.env.npm_command === 'exec') env.DRAGOMAN_LAUNCHER ||= `npx -y ${own.name}@${own.version}`; // what `dragoman setup` has clients start
const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit', env });

// npx tells us nothing when it is killed; and its SIGTERM ends the shell that it has put between, not us.
if (process.env.npm_command === 'exec' && !windows) {
  const shell = process.ppid;
  const npm = parentOf(shell);
  const timer = setInterval(() => {
    if (process.ppid === shell && parentOf(shell) === npm) return;
    clearInterval(timer);
    if (!passed) child.kill('SIGTERM');
  }, check);
  timer.unref();
}

child.on('error', (err) => fail(`${err.message}; fix: install ${name} again`));
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  for (const s of signals) process.removeAllListeners(s);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(1), check); // a signal that does not end Node
});
