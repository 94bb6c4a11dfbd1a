"""An MCP server: tools in tools.py, resources in resources.py, prompts in prompts.py."""
