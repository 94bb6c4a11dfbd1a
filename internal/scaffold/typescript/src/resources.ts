// The resources. Add one by calling server.resource.
import { open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { ProtocolError } from '@modelcontextprotocol/server';
import type { Server } from './server.js';

export const MAX_BYTES = 1024 * 1024;
export const MAX_ENTRIES = 1000;
const INVALID_PARAMS = -32602;

/** Register the resources of this module. */
export function register(server: Server): void {
  const { config } = server;
  server.resource({
    name: 'about',
    description: 'Name and version.',
    uriPattern: 'resource://about',
    mimeType: 'application/json',
    isStatic: true,
    fetch: () =>
      Promise.resolve(JSON.stringify({ name: config.server_name, version: config.server_version })),
  });
  server.resource({
    name: 'file_browser',
    description:
      "A folder's entries or a file's text below file_root. In path, / is %2F and .%2F the root.",
    uriPattern: 'file:///{path}',
    mimeType: 'application/json',
    isStatic: false,
    fetch: async (variables) =>
      JSON.stringify(await browse(config.file_root, variables['path'] ?? '.')),
  });
}

function refused(name: string, why: string): ProtocolError {
  return new ProtocolError(INVALID_PARAMS, `${JSON.stringify(name)} ${why}`);
}

/**
 * Return what is at a path below root. Links are followed if they stay below it. Throws a
 * ProtocolError if there is nothing, it is outside of root, too large or no text.
 */
export async function browse(root: string, name: string): Promise<Record<string, unknown>> {
  const top = await realpath(root);
  let real: string;
  try {
    real = await realpath(path.resolve(top, name));
  } catch {
    throw refused(name, 'is not there');
  }
  if (real !== top && !real.startsWith(top + path.sep)) {
    throw refused(name, 'is not there'); // as if it did not exist
  }
  const info = await stat(real);
  if (info.isDirectory()) {
    const found = await readdir(real, { withFileTypes: true });
    if (found.length > MAX_ENTRIES) throw refused(name, `has more than ${MAX_ENTRIES} entries`);
    const entries = found
      .map((one) => ({ name: one.name, kind: one.isDirectory() ? 'folder' : 'file' }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    return { path: name, entries };
  }
  if (!info.isFile()) throw refused(name, 'is neither a file nor a folder');
  const file = await open(real);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_BYTES + 1), 0, MAX_BYTES + 1, 0);
    if (bytesRead > MAX_BYTES) throw refused(name, `has more than ${MAX_BYTES} bytes`);
    const text = new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, bytesRead));
    return { path: name, text };
  } catch (error) {
    throw error instanceof TypeError ? refused(name, 'is not text') : error;
  } finally {
    await file.close();
  }
}
