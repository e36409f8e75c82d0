"""Eight checks of one framework, in the framework's own environment.

`python framework_checks.py NAME SERVER-JSON COMMAND…` writes a JSON object into the file that CHECKS_FILE names: for
each check true, or what went wrong.
"""

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import framework_adapters as adapters

IMAGE = (
    "import base64\n"
    "class Dot:\n"
    "    def _repr_png_(self):\n"
    '        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==")\n'  # noqa: E501
    "Dot()"
)
CHECKS = ("connect", "list", "call", "error", "image", "eight calls at once", "kill -9", "unknown tool")
WAIT_S = 120
TEXT_ALONE = {"crewai", "crewai_adapter", "dspy", "smolagents"}
"""The frameworks that drop every image next to a text; the text has to name it."""


class Checks:
    """The checks over one connection, in their order."""

    def __init__(self, server, record, *, takes_text_alone=False):
        self.server = server
        self.takes_text_alone = takes_text_alone
        self.record = Path(record)

    async def evaluate(self, code):
        result = await asyncio.wait_for(self.server.call("evaluate_code", {"code": code}), WAIT_S)
        return adapters.text_of(result)

    async def evaluate_or_error(self, code):
        try:
            return await self.evaluate(code)
        except Exception as error:  # noqa: BLE001 - frameworks raise what a tool reports as an error
            return f"{error!r} {error}"

    async def check(self, name):
        match name:
            case "list":
                names = await asyncio.wait_for(self.server.list(), WAIT_S)
                missing = {"evaluate_code", "run_tests", "edit_files"} - set(names)
                assert not missing, f"missing: {missing}"
            case "call":
                assert "42" in await self.evaluate("6 * 7")
            case "error":
                reported = await self.evaluate_or_error("1 / 0")
                assert "ZeroDivisionError" in reported, reported[:500]
            case "image":
                reported = await self.evaluate(IMAGE)
                assert "iVBORw0KGgo" in reported or (self.takes_text_alone and "<<image-1>>" in reported), reported[
                    :500
                ]
            case "eight calls at once":
                reported = await asyncio.gather(*(self.evaluate(f"{number} * 1001") for number in range(1, 9)))
                for number, text in enumerate(reported, 1):
                    assert str(number * 1001) in text, text[:500]
            case "kill -9":
                await self.kill()
            case "unknown tool":
                try:
                    reported = adapters.text_of(await asyncio.wait_for(self.server.call("no_such_tool", {}), WAIT_S))
                except Exception as error:  # noqa: BLE001 - a framework may refuse it itself
                    reported = f"error {error!r}"
                assert "no_such_tool" in reported or "error" in reported.lower(), reported[:500]
                assert "42" in await self.evaluate("6 * 7")

    async def kill(self):
        before = json.loads(self.record.read_text())["pid"]
        os.kill(before, signal.SIGKILL)
        deadline = time.monotonic() + WAIT_S
        while "4321" not in (reported := await self.evaluate_or_error("4000 + 321")):
            assert time.monotonic() < deadline, reported[:500]
            await asyncio.sleep(0.2)
        assert json.loads(self.record.read_text())["pid"] != before


async def main(name, record, command):
    found = dict.fromkeys(CHECKS, "not reached")
    try:
        async with getattr(adapters, name)(command) as server:
            found["connect"] = True
            checks = Checks(server, record, takes_text_alone=name in TEXT_ALONE)
            for check in CHECKS[1:]:
                try:
                    await checks.check(check)
                    found[check] = True
                except Exception as error:  # noqa: BLE001 - it is the result
                    found[check] = f"{type(error).__name__}: {error}"[:600]
            write(found)
    except BaseException as error:  # noqa: BLE001 - groups of errors and exits too
        if found["connect"] is not True:
            found["connect"] = "".join(traceback.format_exception_only(error))[:600]
        write(found)
    os._exit(0)  # some frameworks leave threads behind


def write(found):
    Path(os.environ["CHECKS_FILE"]).write_text(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
