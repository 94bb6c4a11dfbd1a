// Written by dragoman generate, not for editing.
import type { Service } from "../../runtime.ts";

export const service: Service = {
  name: "issue-tracker",
  url: "http://127.0.0.1:8080/servers/issue-tracker",
  urlVariable: "MCP_URL_ISSUE_TRACKER",
  tokenVariable: "MCP_TOKEN_ISSUE_TRACKER",
};
