"""A server with the extension for Agent Skills (SEP-2640), made with FastMCP. It serves the folders of skills below its argument."""
import sys

from fastmcp import FastMCP
from fastmcp.skills.provider import SkillsDirectoryProvider

app = FastMCP("skilled")
app.add_provider(SkillsDirectoryProvider(sys.argv[1]))


@app.tool
def echo(text: str) -> str:
    """Says what it is told."""
    return text


app.run(transport="stdio", show_banner=False)
