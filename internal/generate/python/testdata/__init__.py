"""Tools of issue-tracker. Written by dragoman generate, not for editing."""

from ..runtime import Service

SERVICE = Service("issue-tracker", "http://127.0.0.1:8080/servers/issue-tracker", "MCP_URL_ISSUE_TRACKER", "MCP_TOKEN_ISSUE_TRACKER")
