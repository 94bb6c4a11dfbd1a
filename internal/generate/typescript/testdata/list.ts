// Written by dragoman generate, not for editing.
import { call, type CallOptions, type ToolResult } from "../../runtime.ts";
import { service } from "./service.ts";

export interface ListArguments {
  n?: number;
}

/** list */
export function list(args: ListArguments = {}, options: CallOptions = {}): Promise<ToolResult<Array<string>>> {
  return call(service, "list", args, options);
}
