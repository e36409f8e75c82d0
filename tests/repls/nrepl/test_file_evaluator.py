"""Code from a file is evaluated on the JVM by a function that compiles in the file name, if that works."""

import pytest
import real_repls
from evaluations import evaluate

from codriver.core.print_limits import PrintLimits
from codriver.core.requests import Form, Request
from codriver.repls import dialects
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.nrepl import probe
from codriver.repls.nrepl.connection import Message
from codriver.repls.nrepl.nrepl_adapter import NreplAdapter, connect

pytestmark = pytest.mark.anyio

FUNCTION = '"nrepl.middleware.interruptible-eval/codriver-eval-in-file"'
PROBED = '"codriver_probe.clj"'


class Answering:
    """A connection whose queries have these values, in turn; None means no answer in time."""

    def __init__(self, *values):
        self.values = list(values)

    async def request(self, op, *, timeout_s, **_):
        value = self.values.pop(0)
        if value is None:
            raise OpTimedOutError(op, timeout_s)
        return [Message(fields={"value": value} if value else {"ex": "no such function"})]


@pytest.mark.parametrize(
    ("values", "function"),
    [
        ([FUNCTION, PROBED], FUNCTION.strip('"')),
        ([FUNCTION, '"NO_SOURCE_FILE"'], None),
        ([FUNCTION, ""], None),
        ([FUNCTION, None], None),
        (["nil"], None),
        ([""], None),
        ([None], None),
    ],
    ids=["honoured", "ignored", "refused", "unanswered", "nowhere to be", "not defined", "busy"],
)
async def test_the_function_that_evaluates_files_is_used_only_if_a_probe_succeeded(values, function):
    connection = Answering(*values)
    assert await probe._probe_evaluator(connection, dialects.CLOJURE) == function
    assert connection.values == []


async def test_a_dialect_without_a_function_that_evaluates_files_is_not_probed():
    assert await probe._probe_evaluator(Answering(), dialects.NBB) is None


@pytest.mark.parametrize("server", ["jvm", "tools.nrepl"])
async def test_the_function_that_evaluates_files_is_used_only_for_code_from_a_file(server):
    async with connect(real_repls.repl(server).endpoint, listener=lambda *_: None) as opened:
        assert isinstance(opened, NreplAdapter)
        sent, connection = [], opened._sessions.main.connection
        write = connection.try_send
        connection.try_send = lambda exchange, op, fields: sent.append(fields) or write(exchange, op, fields)
        for number, file in enumerate([None, "src/shop.clj", None]):
            request = Request(f"e{number}", "1", file=file, forms=(Form("1", 1, 1),))
            assert (await evaluate(opened, request, PrintLimits())).status == "done"
    assert ["eval" in fields for fields in sent] == [False, True, False]
