// Written by dragoman generate, not for editing.
import { call, type CallOptions, type ToolResult } from "../../runtime.ts";
import { service } from "./service.ts";

/** What is sent. */
export interface CreateIssueArguments {
  /**
   * The title.
   * In two lines *\/ \@quoted \
   */
  title: string;
  /** Labels */
  labels?: Array<CreateIssueLabel>;
  /**
   * one of "open", "closed", null, 1, 1.5, true, 12345678901234567890
   * default "open"
   */
  state: "open" | "closed" | null | 1 | 1.5 | true | number;
  /** minimum 0 */
  "X-Key"?: number;
  /** may be null */
  "\u00e9"?: boolean | null;
  $ok?: string;
  ""?: null;
  parent?: CreateIssueNode;
  value?: CreateIssueJson;
  any?: unknown;
  meta?: { [key: string]: number };
  [key: string]: unknown;
}

export type CreateIssueJson = string | Array<CreateIssueJson> | { [key: string]: CreateIssueJson };

export interface CreateIssueNode {
  /** may be null */
  next?: CreateIssueNode | null;
}

/** A label */
export interface CreateIssueLabel {
  name: string;
}

export interface CreateIssueResult {
  number: number;
  owner?: CreateIssueResultOwner;
}

export interface CreateIssueResultOwner {
  login: string;
}

/** Creates an issue. */
export function createIssue(args: CreateIssueArguments, options: CallOptions = {}): Promise<ToolResult<CreateIssueResult>> {
  return call(service, "create_issue", args, options);
}
