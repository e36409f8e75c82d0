"""The outputs of a notebook cell, collected from the messages of its execution."""

import gc
import json

from codriver.features.jupyter.kernels.cell_outputs import CellOutputs
from codriver.features.jupyter.kernels.messages import Message


def stream(text, name="stdout"):
    return Message("iopub", "stream", content={"name": name, "text": text})


def display(text, display_id="", kind="display_data"):
    content = {"data": {"text/plain": text}, "metadata": {}, "transient": {"display_id": display_id}}
    return Message("iopub", kind, content=content)


CLEAR = Message("iopub", "clear_output", content={"wait": False})
CLEAR_NEXT = Message("iopub", "clear_output", content={"wait": True})


def run(*messages, **limits):
    outputs = CellOutputs(**limits)
    for message in messages:
        outputs.receive(message)
    return outputs.run()


def output_texts(run_result):
    return [output.get("text") or output["data"]["text/plain"] for output in run_result.outputs]


def test_consecutive_texts_of_one_stream_are_one_output():
    run_result = run(
        stream("a"), stream("b"), stream("x", "stderr"), stream("c"), display("1"), stream("d"), stream("e")
    )
    assert output_texts(run_result) == ["ab", "x", "c", "1", "de"]
    assert (run_result.execution_count, run_result.has_started, run().has_started) == (None, True, False)


def test_clear_output_takes_effect_immediately_or_with_the_next_output():
    assert output_texts(run(stream("a"), CLEAR, stream("b"))) == ["b"]
    assert output_texts(run(stream("a"), CLEAR_NEXT)) == ["a"]
    assert output_texts(run(stream("a"), CLEAR_NEXT, stream("b"), stream("c"))) == ["bc"]
    assert output_texts(run(stream("a"), CLEAR_NEXT, display("1"))) == ["1"]


def test_an_update_replaces_the_content_of_its_display():
    run_result = run(display("0 %", "bar"), stream("a"), display("100 %", "bar", "update_display_data"), display("x"))
    assert output_texts(run_result) == ["100 %", "a", "x"]


def test_an_update_counts_towards_the_limit_like_the_output_it_replaces():
    update = "update_display_data"
    size = len(json.dumps({"output_type": "display_data", "data": {"text/plain": "a" * 8}, "metadata": {}}))
    limits = {"max_characters": size}
    run_result = run(display("a" * 8, "bar"), display("b" * 9, "bar", update), display("c", "bar", update), **limits)
    assert (output_texts(run_result), run_result.omitted) == (["c"], 1)
    run_result = run(display("c", "bar"), CLEAR, display("d" * 8, "bar", update), stream("e" * size), **limits)
    assert (output_texts(run_result), run_result.omitted) == (["e" * size], 0)


def test_omitted_displays_are_not_stored():
    outputs = CellOutputs(max_characters=1000)
    for _ in range(50):
        outputs.receive(display("a" * 10_000, "bar"))
    for display_id in ("", "bar"):
        outputs.receive(display("a", display_id))
    gc.collect()
    assert not [
        candidate
        for candidate in gc.get_objects()
        if type(candidate) is dict and candidate.get("text/plain") == "a" * 10_000
    ]
    assert output_texts(outputs.run()) == ["a", "a"]


def test_outputs_beyond_the_limit_are_only_counted_until_the_outputs_are_cleared():
    run_result = run(stream("a" * 8), stream("b" * 8), display("big"), stream("c"), max_characters=10)
    assert (output_texts(run_result), run_result.omitted > 10) == (["a" * 8 + "bb"], True)
    run_result = run(stream("a" * 20), CLEAR, stream("b" * 10), max_characters=10)
    assert (output_texts(run_result), run_result.omitted) == (["b" * 10], 0)
    assert output_texts(run(display("x" * 99), stream("a"), max_characters=10)) == ["a"]
