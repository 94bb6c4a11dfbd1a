#!/usr/bin/env node
// Runs the binary in the package of this system, with our arguments, standard streams and signals, and ends as it ends. Node cannot replace
// itself by another program, so this process stays as its parent.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');
const tty = require('node:tty');

const pause = 500; // ms in which a repeated signal is the same: `kill -- -GROUP` reaches us, and npm, which passes it on to us
const check = 1000; // ms between looks for npm

const windows = process.platform === 'win32';
const name = `${require('../package.json').name}-${process.platform}-${process.arch}`;

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

// What a terminal sends (Ctrl-C) reaches the child by itself, if it is in our process group. Without a terminal it has a group of its own, so
// that a signal to ours reaches it once: a second one would end it without draining.
const terminal = [0, 1, 2].some((fd) => tty.isatty(fd));

const last = new Map();
const pass = (signal) => {
  const now = performance.now();
  if (now - (last.get(signal) ?? -Infinity) < pause) return;
  last.set(signal, now);
  child.kill(signal);
};
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', ...(windows ? [] : ['SIGQUIT'])];
for (const signal of signals) process.on(signal, () => signal !== 'SIGTERM' && terminal || pass(signal));

const env = { ...process.env, DRAGOMAN_PARENT: String(process.pid) }; // it ends with us even if we are killed
const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit', detached: !terminal && !windows, env });

// npx passes signals on, but not its own death.
if (process.env.npm_command === 'exec' && !windows) {
  const npm = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === npm) return;
    clearInterval(timer);
    child.kill('SIGTERM');
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
