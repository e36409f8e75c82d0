"""Print what a Python SDK client is asked, and where its code runs before and after it gives the requested answer.

Arguments: the answer (`yes`, `no`, `cancel`, `decline`, `empty`, `other`, `never`), and the MCP server's command line.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

WHERE = {"code": "import sys; sys.executable", "detail": True, "timeoutMs": 60_000}
CONTENT = {"yes": {"answer": "this once"}, "no": {"answer": "no"}, "empty": {}, "other": {"answer": "This once"}}
LOOKS = 600


def text_of(result):
    return json.loads(result.content[0].text)


async def main(how, command, *arguments):
    seen = {"asked": []}
    answered = asyncio.Event()

    async def elicit(_context, params):
        seen["asked"].append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        answered.set()
        if how == "never":
            await asyncio.sleep(3600)
        if how in CONTENT:
            return types.ElicitResult(action="accept", content=CONTENT[how])
        return types.ElicitResult(action=how)

    server = StdioServerParameters(command=command, args=list(arguments))
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        await session.initialize()
        first = text_of(await session.call_tool("evaluate_code", WHERE))
        await asyncio.wait_for(answered.wait(), 60)
        # The result of the answer is in the log in any case.
        for _ in range(LOOKS):
            log = text_of(await session.call_tool("repl_output_log", {"since": 0}))
            text = [item["text"] for item in log["result"] if "the user of " in item["text"]]
            row = text_of(await session.call_tool("list_sessions", {}))["sessions"][0]
            if text and (how != "yes" or (row["generation"] > 1 and row["phase"] == "connected")):
                break
            await asyncio.sleep(0.1)
        then = text_of(await session.call_tool("evaluate_code", WHERE))
    seen |= {"first": first["result"], "then": then["result"], "said": text}
    json.dump(seen, sys.stdout)
    sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
