"""Lists the skills of a server with FastMCP's client, reads each file, and verifies size, digest and frontmatter as hosts must (SEP-2640).

    client.py URL

Prints a line for each skill, its URI and the number of its files, and then "all verified". Fails if one does not verify, or if an unknown skill is no -32602.
"""
import asyncio
import sys

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension
from mcp.shared.exceptions import MCPError


async def main():
    async with Client(sys.argv[1], extensions=[SkillsClientExtension()]) as client:
        for entry in await client.list_skills():
            skill = await client.read_skill(entry.uri)  # it verifies
            print(entry.uri, len(skill.files))
        for uri in ["skill://skilled/none/SKILL.md", "skill://none/none/SKILL.md"]:
            try:
                await client.get_skill(uri)
            except MCPError as error:
                assert error.error.code == -32602, error
            else:
                raise AssertionError(f"{uri} is a skill")
    print("all verified")


asyncio.run(main())
