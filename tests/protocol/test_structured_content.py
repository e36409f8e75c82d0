"""The two forms of an answer: the text equals JavaScript's JSON of the structure, and some clients get the text
alone.
"""

import json
import subprocess

import pytest
from needs import node

MODERN = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
SAYING_IT_AGAIN = """
const lines = require('fs').readFileSync(0, 'utf8').split('\\n').filter(line => line)
console.log(JSON.stringify(lines.map(line => {
  const {content, structuredContent} = JSON.parse(line).result
  return [content[0].text, JSON.stringify(structuredContent)]
})))
"""
NUMBERS = [
    1e21, -1e21, 1.5e300, 5e-324, 1e20, 123456789012345680000.0, 1e16, 10**21, 10**25 + 1, 2**53 - 1, 2**53, 1 - 2**53,
    -(2**53) - 1, 10**20 + 1, 0.1, 1e-5, 1e-6,
    -1e-6, 9.99e-7, 1e-7, 1.25e-12, 2.0, 0.0,
]  # fmt: skip
CALLS = (
    ("evaluate_code", {"code": '"ä \\u2028 \\u007f \\u0000 \\" \\\\ 漢 \U0001f600"'}),
    ("evaluate_code", {"code": '(println "a\\tb\\u001b[0m\\u00e9") 3.0', "detail": True}),
    ("evaluate_code", {"code": "(/ 1 0)"}),
    ("evaluate_code", {"code": "(/ 1"}),
    ("list_sessions", {}),
    ("server_health", {}),
    ("symbol_info", {"symbol": "map"}),
    ("repl_output_log", {"query": "[:find (avg ?l) . :in $ [?l ...]]", "inputs": [[2, 4]]}),
    ("repl_output_log", {"query": "[:find ?l ?h :in $ [?l ...] :where [(/ ?l 2) ?h]]", "inputs": [[3, 4]]}),
    ("repl_output_log", {"query": "[:find [?n ...] :in $ [?n ...]]", "inputs": [NUMBERS]}),
    ("repl_output_log", {}),
)


pytestmark = pytest.mark.served("memory")


def test_the_text_equals_the_structured_content_as_javascript_serializes_it(live):
    with live.client() as client:
        lines = [client.line("tools/call", {"name": tool, "arguments": given}) for tool, given in CALLS]
    done = subprocess.run([node(), "-e", SAYING_IT_AGAIN], input=b"".join(lines), capture_output=True, check=True)
    pairs = json.loads(done.stdout)
    assert len(pairs) == len(CALLS)
    assert [text for text, _ in pairs] == [again for _, again in pairs]


def test_an_average_that_is_a_whole_number_is_written_without_a_decimal_point(live):
    with live.client() as client:
        answer = client.line("tools/call", {"name": "repl_output_log", "arguments": CALLS[7][1]})
    assert type(json.loads(answer)["result"]["structuredContent"]["result"]) is int


def test_an_integer_too_large_for_javascript_keeps_all_its_digits(live):
    given = [2**53 - 1, 2**53 + 1, -(2**53) - 1, 10**20 + 1, 10**25 + 1]
    with live.client() as client:
        answer = client.call("repl_output_log", query="[:find [?n ...] :in $ [?n ...]]", inputs=[given])
    reported = sorted(answer["result"], key=int)
    assert reported == ["-9007199254740993", 2**53 - 1, str(2**53 + 1), str(10**20 + 1), str(10**25 + 1)]


def evaluate(client, **beside):
    params = {"name": "evaluate_code", "arguments": {"code": "(+ 1 2)"}, **beside}
    return client.request("tools/call", params)["result"]


@pytest.mark.parametrize("name", ["codex-mcp-client", "@cline/core"])
def test_clients_that_mishandle_structured_content_get_only_text(live, name):
    with live.client(name=name) as client:
        assert not any("outputSchema" in tool for tool in client.request("tools/list")["result"]["tools"])
        for result in (evaluate(client), evaluate(client, beside="by the SDK's way")):
            assert result.keys() == {"content", "isError"}
            assert json.loads(result["content"][0]["text"])["result"] == "3"


def test_a_client_without_a_handshake_is_also_recognized_by_its_name(live):
    about = {**MODERN, "clientInfo": {"name": "@cline/core", "version": "1"}}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
    with live.client(handshake=False) as client:
        for _ in range(2):
            assert "structuredContent" not in evaluate(client, _meta=meta)


@pytest.mark.parametrize(
    "name", ["claude-code", "copilot-cli", "gemini-cli-mcp-client", "qwen-cli-mcp-client-x", "new"]
)
def test_all_other_clients_get_both_text_and_structured_content(live, name):
    with live.client(name=name) as client:
        assert all("outputSchema" in tool for tool in client.request("tools/list")["result"]["tools"])
        for tool, given in CALLS:
            result = client.request("tools/call", {"name": tool, "arguments": given})["result"]
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
