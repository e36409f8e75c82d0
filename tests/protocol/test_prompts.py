"""Prompts: what a person picks in a client to set an agent to work."""

import pytest
from tools_in_memory import serving

from codriver.app import features
from codriver.protocol import prompts

PROMPTS = (*prompts.BASE_PROMPTS, *features.prompts())


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("prompts"), has_repl=False) as live, live.client() as client:
        yield client


def text_of(client, name, **arguments):
    result = client.request("prompts/get", {"name": name, "arguments": arguments})["result"]
    (message,) = result["messages"]
    assert message["role"] == "user"
    return message["content"]["text"]


def test_every_prompt_is_listed_and_its_arguments_are_optional(client):
    listed = client.request("prompts/list")["result"]["prompts"]
    assert [prompt["name"] for prompt in listed] == [prompt.name for prompt in PROMPTS]
    assert all(prompt["title"] and prompt["description"] for prompt in listed)
    assert not any(argument.get("required") for prompt in listed for argument in prompt.get("arguments", []))


def test_an_argument_is_inserted_into_the_prompt(client):
    assert "since 14:30." in text_of(client, "summarise_agents", since="14:30")
    assert "since the beginning of the log." in text_of(client, "summarise_agents")
    assert "Topic, if any: the {since} parser" in text_of(client, "start_repl_session", topic="the {since} parser")


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_a_prompt_without_arguments_contains_no_placeholders(client, prompt):
    text = text_of(client, prompt.name)
    assert "{" not in text
    assert len(text) < 1000


def test_the_log_categories_named_in_a_prompt_exist(client):
    assert '["evaluationErrorOutput", "otherErrorOutput"]' in text_of(client, "explain_last_error")
    answer = client.call("repl_output_log", category=["evaluationErrorOutput", "otherErrorOutput"], limit=5)
    assert answer["ok"]


def test_an_unknown_prompt_is_named_in_the_error(client):
    error = client.request("prompts/get", {"name": "none"})["error"]
    assert error["code"] == -32602
    assert "none" in error["message"]
    assert "prompts/list" in error["message"]
