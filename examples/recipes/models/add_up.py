"""Call the tools of an MCP server from a node. ``python3 tools.py`` is the server."""

import sys

from mcp import Client, StdioServerParameters

from clew import Context, Graph, node

SERVER = StdioServerParameters(command=sys.executable, args=["tools.py"])


@node(output="total")
async def add_up(numbers, ctx: Context):
    async with Client(SERVER) as tools:

        async def call(name, arguments):
            reply = await tools.call_tool(name, arguments)
            return reply.content[0].text

        total = 0
        for number in numbers:
            total = int(await ctx.record("mcp", call, "add", {"a": total, "b": number}))
        return total


graph = Graph([add_up], name="mcp")
