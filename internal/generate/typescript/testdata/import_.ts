// Written by dragoman generate, not for editing.
import { call, type CallOptions, type ToolResult } from "../../runtime.ts";
import { service } from "./service.ts";

/**
 * Imports
 * `all` of <it>
 */
export function import_(args: { [key: string]: unknown } = {}, options: CallOptions = {}): Promise<ToolResult<unknown>> {
  return call(service, "import", args, options);
}
