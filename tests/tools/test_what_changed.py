"""Where loaded code differs from its files, and what of a former load lives on, as agents are told of it."""

import pytest
from jsonschema import validate

from codriver.tools.manifest import BY_NAME

LOW = "class Shape: pass\ndef rate(x):\n    return x * 2\n"
HIGH = "from low import rate, Shape\nmade = Shape()\ndef total():\n    return rate(1)\n"


def write(live, **texts):
    for name, text in texts.items():
        (live.workspace / f"{name}.py").write_text(text)


def load(client, *names, **arguments):
    return [client.call("load_file", filePath=f"{name}.py", **arguments) for name in names][-1]


def ask(client):
    answer = client.call("what_changed")
    validate(answer, BY_NAME["what_changed"].output)
    assert answer["count"] == len(answer["differences"])
    return answer["differences"]


@pytest.fixture(autouse=True)
def own_modules(live, client):
    """Modules that no other test has: what a REPL has loaded stays."""
    number = len(list(live.workspace.glob("low*.py")))
    low, high = f"low{number}", f"high{number}"
    write(live, **{low: LOW, high: HIGH.replace("low", low)})
    load(client, high)
    return low, high


def test_nothing_is_told_where_nothing_differs(client):
    assert ask(client) == []


def test_an_edit_a_redefinition_and_an_old_object_are_told_with_who_did_it(live, client, own_modules):
    low, high = own_modules
    write(live, **{low: LOW.replace("x * 2", "x * 3") + "def new(): pass\n"})
    assert ask(client) == [f"{low}: edited in the file since: rate; only in the file: new"]
    answer = client.call("evaluate_code", code="def rate(x):\n    return 5", namespace=low, who="ann")
    by = f"(ann, {answer['evaluationId']})"
    assert f"{low}: redefined in the REPL: rate {by}; only in the file: new" in ask(client)
    assert f"{high}.rate is still the old {low}.rate: load {high}, too" in ask(client)
    load(client, low)
    client.call("evaluate_code", code=f"import importlib, {low}; importlib.reload({low}) and None")
