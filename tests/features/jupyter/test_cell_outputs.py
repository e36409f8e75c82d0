"""The outputs of a notebook cell, collected from the messages of its execution."""

import gc
import json

from codriver.features.jupyter.kernels.cell_outputs import CellOutputs
from codriver.features.jupyter.kernels.messages import Message


def stream(text, name="stdout"):
    return Message("iopub", "stream", content={"name": name, "text": text})


def shown(text, display="", kind="display_data"):
    content = {"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": display}}
    return Message("iopub", kind, content=content)


CLEAR = Message("iopub", "clear_output", content={"wait": False})
CLEAR_NEXT = Message("iopub", "clear_output", content={"wait": True})


def run(*messages, **limits):
    outputs = CellOutputs(**limits)
    for message in messages:
        outputs.receive(message)
    return outputs.run()


def texts(found):
    return [one.get("text") or one["data"]["text/plain"] for one in found.outputs]


def test_consecutive_texts_of_one_stream_are_one_output():
    found = run(stream("a"), stream("b"), stream("x", "stderr"), stream("c"), shown("1"), stream("d"), stream("e"))
    assert texts(found) == ["ab", "x", "c", "1", "de"]
    assert (found.execution_count, found.has_started, run().has_started) == (None, True, False)


def test_clearing_takes_effect_immediately_or_with_the_next_output():
    assert texts(run(stream("a"), CLEAR, stream("b"))) == ["b"]
    assert texts(run(stream("a"), CLEAR_NEXT)) == ["a"]
    assert texts(run(stream("a"), CLEAR_NEXT, stream("b"), stream("c"))) == ["bc"]
    assert texts(run(stream("a"), CLEAR_NEXT, shown("1"))) == ["1"]


def test_an_update_replaces_the_content_of_its_display():
    found = run(shown("0 %", "bar"), stream("a"), shown("100 %", "bar", "update_display_data"), shown("x"))
    assert texts(found) == ["100 %", "a", "x"]


def test_an_update_counts_towards_the_limit_like_the_output_it_replaces():
    update = "update_display_data"
    size = len(json.dumps({"output_type": "display_data", "data": {"text/plain": "a" * 8}, "metadata": {}}))
    limits = {"max_characters": size}
    found = run(shown("a" * 8, "bar"), shown("b" * 9, "bar", update), shown("c", "bar", update), **limits)
    assert (texts(found), found.omitted) == (["c"], 1)
    found = run(shown("c", "bar"), CLEAR, shown("d" * 8, "bar", update), stream("e" * size), **limits)
    assert (texts(found), found.omitted) == (["e" * size], 0)


def test_omitted_displays_are_not_stored():
    outputs = CellOutputs(max_characters=1000)
    for _ in range(50):
        outputs.receive(shown("a" * 10_000, "bar"))
    for kind in ("", "bar"):
        outputs.receive(shown("a", kind))
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is dict and one.get("text/plain") == "a" * 10_000]
    assert texts(outputs.run()) == ["a", "a"]


def test_outputs_beyond_the_limit_are_counted_until_a_clear_makes_room():
    found = run(stream("a" * 8), stream("b" * 8), shown("big"), stream("c"), max_characters=10)
    assert (texts(found), found.omitted > 10) == (["a" * 8 + "bb"], True)
    found = run(stream("a" * 20), CLEAR, stream("b" * 10), max_characters=10)
    assert (texts(found), found.omitted) == (["b" * 10], 0)
    assert texts(run(shown("x" * 99), stream("a"), max_characters=10)) == ["a"]
