"""Whatever arguments a client sends, it gets an answer: from the tool, or as a refusal with a hint."""

import json

import pytest
from all_tools import FOR_HOOKS, MANIFEST
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_server import serving

from codriver.tools.calls.gate import BASE_REASONS

INTERNAL = -32603


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    # No REPL: what evaluates is refused, and all else is done for real.
    with serving(tmp_path_factory.mktemp("arguments"), "--repl", "none") as live, live.client() as connected:
        (live.workspace / "a.clj").write_text("(ns a)\n\n(defn f [x]\n  x)\n\n(comment\n  (f 1))\n")
        yield connected


TEXTS = st.one_of(
    st.sampled_from(
        [
            "a.clj",
            "../a.clj",
            "/etc/passwd",
            "a.clj\0",
            "",
            ".",
            "(defn f [x]",
            "(ns a)",
            "[:find ?e :where [?e]]",
            "x-1",
        ]
    ),
    # Hypothesis also draws strings from the sources, and a refusal repeats names that it does not know.
    st.text(max_size=20).filter(lambda text: "Traceback" not in text),
)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
JSON = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)), max_leaves=6
)


def fitting(schema, definitions):
    """Generate values that mostly match a JSON schema: values that are refused at once test little."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return st.one_of(*(fitting(item, definitions) for item in schema["anyOf"]), JSON)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            low, high = schema.get("minimum", -3), schema.get("maximum", 2**70)
            return st.one_of(st.integers(low, min(high, low + 3000)), st.integers(low, high))
        case "boolean":
            return st.booleans()
        case "string":
            return TEXTS
        case "array":
            return st.lists(fitting(schema.get("items", {}), definitions), max_size=3)
        case "object" if "properties" in schema:
            return objects(schema, definitions)
    return JSON


def objects(schema, definitions):
    members = {name: fitting(member, definitions) for name, member in schema["properties"].items()}
    needed = {name: value for name, value in members.items() if name in schema.get("required", ())}
    free = {name: value for name, value in members.items() if name not in needed}
    return st.fixed_dictionaries(needed, optional=free)


def arguments(tool):
    schema = tool.schema
    return st.one_of(objects(schema, schema.get("$defs", {})), st.dictionaries(TEXTS, JSON, max_size=2))


def small(function):
    return settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))(function)


WAITS = {"wait_for"}
"""What is asked to wait does wait, for as long as it is asked to."""


ALL = [tool for tool in (*MANIFEST, *FOR_HOOKS.values()) if tool.name not in WAITS]


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_a_tool_answers_or_refuses_any_arguments(client, tool):
    @small
    @given(arguments(tool))
    def is_answered(given_arguments):
        answer = client.request("tools/call", {"name": tool.name, "arguments": given_arguments})
        if "error" in answer:
            assert answer["error"]["code"] != INTERNAL, answer
            return
        content = answer["result"]["structuredContent"]
        if given_arguments.get("renderFor") and "ok" not in content:
            return  # a hook's own shape
        assert answer["result"]["isError"] is not content["ok"]
        if not content["ok"]:
            assert content["reason"] in BASE_REASONS
            assert content["hint"]
            assert "Traceback" not in json.dumps(content)

    is_answered()


URIS = st.one_of(
    st.sampled_from(
        ["skill://", "codriver://evaluation/", "codriver://output-log", "file:///etc/passwd", "skill://x/%2e%2e/y"]
    ),
    st.tuples(
        st.sampled_from(["skill://live-repl/", "codriver://evaluation/1-1/", "codriver://symbol/", "codriver://"]),
        TEXTS,
    ).map("".join),
    TEXTS,
)


def test_a_resource_request_with_any_uri_is_answered_or_refused(client):
    @small
    @given(URIS)
    def is_answered(uri):
        answer = client.request("resources/read", {"uri": uri})
        assert "result" in answer or answer["error"]["code"] != INTERNAL, answer
        assert "root:" not in json.dumps(answer)

    is_answered()


def test_any_method_and_parameters_are_answered_with_their_id(client):
    methods = ["tools/call", "tools/list", "resources/read", "resources/subscribe", "prompts/get", "initialize", "ping"]

    @small
    @given(st.one_of(st.sampled_from([*methods, "server/discover"]), st.text(max_size=9)), JSON)
    def is_answered(method, params):
        answer = client.request(method, params)
        assert "result" in answer or answer["error"]["code"] != INTERNAL, answer

    is_answered()
