"""Reading arguments as agents write them, before validation, for every tool and every argument."""

import json

import needs
import pytest
from all_tools import FOR_HOOKS, MANIFEST

from codriver.errors import RefusedError
from codriver.tools.calls.argument_reading import (
    OTHER_NAMES,
    ArgumentReader,
    has_unusual_path,
    model_fields,
    resolve_argument_name,
)
from codriver.tools.calls.gate import parse_arguments

TOOLS = {tool.name: tool for tool in (*MANIFEST, *FOR_HOOKS.values())}


def models_of(model):
    """Return the model and the models of the objects nested in it."""
    yield model
    for field in model_fields(model).values():
        inner = field.expected.model or (field.expected.item and field.expected.item.model)
        if inner:
            yield from models_of(inner)


MODELS = {model.__name__: model for tool in TOOLS.values() for model in models_of(tool.arguments)}


def read(model, **given):
    reader = ArgumentReader(str)
    found = reader.read(model, given)
    assert not reader.errors
    return found


def values_of(expected):
    """Generate values of each expected kind, none of them text."""
    if expected.accepts_anything:
        return
    for kind in expected.scalars:
        yield {bool: True, int: 7, float: 2.5}[kind]
    if expected.is_object:
        yield {}
    if expected.item is not None:
        items = list(values_of(expected.item))
        yield [*items, *(["one", "[2]"] if expected.item.accepts_text or expected.item.accepts_anything else [])]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_an_argument_that_is_null_counts_as_absent(model):
    for name, field in model_fields(model).items():
        assert read(model, **{name: None}) == ({name: None} if field.distinguishes_null else {})


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_json_text_is_parsed_where_text_is_not_accepted(model):
    for name, field in model_fields(model).items():
        for value in values_of(field.expected):
            given = value if field.expected.accepts_text else json.dumps(value)
            assert read(model, **{name: given}) == {name: value}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_text_is_not_parsed_as_json_where_text_is_accepted(model):
    for name, field in model_fields(model).items():
        if field.expected.accepts_text or field.expected.accepts_anything:
            for text in ("[1, 2]", '{"a": 1}', "true", "7", "null", '"x"'):
                assert read(model, **{name: text}) == {name: text}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_single_item_is_accepted_in_place_of_a_list(model):
    for name, field in model_fields(model).items():
        if field.expected.item is not None and not field.expected.accepts_anything:
            item = field.expected.item
            texts = ["one"] if item.accepts_text or item.accepts_anything else []
            for value in (*values_of(item), *texts):
                if not isinstance(value, list):
                    assert read(model, **{name: value}) == {name: [value]}
            if item.is_object:
                assert read(model, **{name: "{}"}) == read(model, **{name: ["{}"]}) == {name: [{}]}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_aliases_of_an_argument_never_shadow_it_and_cannot_be_combined_with_it(model):
    for name in model_fields(model):
        assert resolve_argument_name(model, name) == name
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        others = {
            item
            for item in (*OTHER_NAMES, *model.OTHER_NAMES, snake)
            if item != name and resolve_argument_name(model, item) == name
        }
        for other in others:
            assert other not in model_fields(model)
            for given in ({name: "a", other: "b"}, {other: "b", name: "a"}):
                reader = ArgumentReader(str)
                assert list(reader.read(model, given)) == [name]
                (problem,) = reader.errors
                assert (problem.position, problem.text) == (
                    (other,),
                    f"is another name for {name}, which is also given",
                )
            assert list(read(model, **{other: "b", name: None})) == [name]


@pytest.mark.parametrize(
    ("tool", "written", "meant"),
    [
        ("load_file", "path", "filePath"),
        ("status", "filePath", "file"),
        ("run_tests", "filePath", "paths"),
        ("load_file", "file_path", "filePath"),
        ("load_file", "file", "filePath"),
        ("load_file", "session", "replSessionKey"),
        ("evaluate_code", "session", "replSessionKey"),
        ("evaluate_code", "repl_session_key", "replSessionKey"),
        ("run_tests", "names", "test"),
        ("run_tests", "path", "paths"),
        ("edit_files", "names", "test"),
        ("status", "path", "file"),
        ("get_evaluation", "path", "path"),
        ("inspect_app", "path", "path"),
        ("evaluate_code", "timeout", "timeout"),
        ("run_tests", "timeout", "timeout"),
        ("run_tests", "timeoutMs", "timeoutMs"),
        ("edit_files", "timeoutMs", "limitMs"),
        ("try_code", "timeoutMs", "limitMs"),
    ],
)
def test_common_aliases_map_to_the_arguments_of_a_tool(tool, written, meant):
    assert resolve_argument_name(TOOLS[tool].arguments, written) == meant


def test_argument_names_of_other_editing_tools_are_accepted():
    given = {"edits": {"path": "a.py", "old_string": "x", "new_string": "y", "line": None}}
    (edit,) = vars(parse_arguments(TOOLS["edit_files"], given))["edits"]
    assert (edit.file_path, edit.old_text, edit.new_text, edit.line) == ("a.py", "x", "y", None)


@pytest.mark.parametrize("name", TOOLS)
def test_a_refusal_lists_all_valid_arguments_and_suggests_the_closest(name):
    tool = TOOLS[name]
    with pytest.raises(RefusedError) as refused:
        parse_arguments(tool, {"whoo": "x"})
    assert refused.value.reason == "bad-arguments"
    words = f"the arguments of {tool.name} are: {', '.join(model_fields(tool.arguments))}"
    assert words in refused.value.hint
    assert "whoo: there is no such argument; did you mean who?" in refused.value.message


@pytest.mark.parametrize(
    ("tool", "written", "suggested"),
    [
        ("evaluate_code", "expression", "code"),
        ("evaluate_code", "cod", "code"),
        ("symbol_info", "name", "symbol"),
        ("complete_symbol", "symbol", "prefix"),
        ("get_evaluation", "id", "evaluationId"),
        ("get_evaluation", "wait", "waitMs"),
        ("status", "key", "replSessionKey"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_name_that_was_probably_intended(tool, written, suggested):
    with pytest.raises(RefusedError) as refused:
        parse_arguments(TOOLS[tool], {written: "x"})
    assert f"{written}: there is no such argument; did you mean {suggested}?" in refused.value.message


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("run_tests", {"args": '["-k", "\\ud800"]'}),
        ("run_tests", {"paths": '["a\\udfff.py"]'}),
        ("edit_files", {"edits": '[{"filePath": "a.py", "oldText": "x", "newText": "\\ud83d"}]'}),
        ("edit_files", {"edits": '{"\\ud800": 1}'}),
    ],
)
def test_half_a_surrogate_pair_in_json_text_is_refused(tool, given):
    with pytest.raises(RefusedError) as refused:
        parse_arguments(TOOLS[tool], given)
    assert "half of a surrogate pair" in refused.value.message
    assert "whole character" in refused.value.message


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_whole_number_is_accepted_as_text(model):
    for name, field in model_fields(model).items():
        if field.expected.accepts_text and not field.expected.scalars and not field.expected.accepts_anything:
            assert read(model, **{name: 7}) == {name: "7"}
            assert read(model, **{name: True}) == {name: [True] if field.expected.item else True}


def test_a_common_argument_with_the_value_that_is_always_used_is_ignored():
    item = {"file_path": "a.py", "old_string": "1", "new_string": "2"}
    (edit,) = parse_arguments(TOOLS["edit_files"], {"edits": [{**item, "replace_all": False}]}).model_dump()["edits"]
    assert (edit["old_text"], edit["new_text"]) == ("1", "2")
    with pytest.raises(RefusedError, match="replace_all: there is no such argument"):
        parse_arguments(TOOLS["edit_files"], {"edits": [{**item, "replace_all": True}]})


def test_an_unknown_argument_with_value_null_is_ignored():
    assert vars(parse_arguments(TOOLS["evaluate_code"], {"code": "1", "nothing": None}))["code"] == "1"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_string_null_is_read_as_null_where_text_is_not_accepted(model):
    for name, field in model_fields(model).items():
        options = [item for item in (field.expected, field.expected.item) if item is not None]
        reads = any(option.accepts_text or option.accepts_anything for option in options)
        if not reads and not field.distinguishes_null:
            assert read(model, **{name: " null"}) == {}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_list_of_one_item_is_accepted_in_place_of_the_item(model):
    for name, field in model_fields(model).items():
        expected = field.expected
        if expected.item is None and not expected.accepts_anything:
            values = [*values_of(expected), *(["[2]"] if expected.accepts_text else [])]
            for value in values:
                assert read(model, **{name: [value]}) == {name: value}
                assert read(model, **{name: [value, value]}) == {name: [value, value]}


WANTED = [{"filePath": "a.py", "oldText": "x", "newText": "y"}]


@pytest.mark.parametrize(
    "given",
    [
        {"filePath": "a.py", "oldText": "x", "newText": "y"},
        {"file_path": "a.py", "old_string": "x", "new_string": "y"},
        {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]},
        {"path": "a.py", "edits": {"oldText": "x", "newText": "y"}},
        {"path": "a.py", "edits": '[{"oldText": "x", "newText": "y"}]'},
        {"path": "a.py", "newText": "y", "edits": [{"oldText": "x"}]},
        {"path": "a.py", "oldText": "x", "newText": "y", "edits": None},
    ],
)
def test_fields_of_an_edit_are_accepted_next_to_or_instead_of_the_list_of_edits(given):
    assert read(TOOLS["edit_files"].arguments, **given, load=True) == {"edits": WANTED, "load": True}


def test_a_field_given_outside_the_list_applies_to_each_item():
    model, edits = TOOLS["edit_files"].arguments, [{"oldText": "x"}, {"oldText": "y"}]
    assert read(model, path="a.py", edits=edits) == {"edits": [{"filePath": "a.py", **edit} for edit in edits]}


@pytest.mark.parametrize("own", ["filePath", "path"])
def test_a_field_given_outside_the_list_is_refused_if_an_item_also_has_it(own):
    edits = [{"oldText": "x", "newText": "y"}, {own: "b.py", "oldText": "x", "newText": "y"}]
    with pytest.raises(RefusedError) as refused:
        parse_arguments(TOOLS["edit_files"], {"path": "a.py", "edits": edits})
    assert "path: there is no such argument" in refused.value.message


@pytest.mark.parametrize("given", ["A=1", ["A=1"], '["A=1"]', '{"A": "1"}', {"A": "1"}])
def test_environment_variables_can_be_given_as_a_list_a_dictionary_or_text(given):
    assert vars(parse_arguments(TOOLS["run_tests"], {"env": given}))["env"] == {"A": "1"}


def test_the_unit_of_a_timeout_is_not_guessed():
    with pytest.raises(RefusedError) as refused:
        parse_arguments(TOOLS["evaluate_code"], {"code": "1", "timeout": 30})
    assert "timeout: there is no such argument; did you mean timeoutMs?" in refused.value.message
    assert "background" in refused.value.hint


def test_a_refusal_lists_the_fields_of_an_object_within_a_list():
    with pytest.raises(RefusedError) as refused:
        parse_arguments(
            TOOLS["edit_files"], {"edits": [{"filePath": "a.py", "oldText": "a", "newText": "b", "targetLine": 1}]}
        )
    assert ": edits.0.targetLine: " in refused.value.message
    assert "did you mean targetLineText?" in refused.value.message
    assert "each of edits accepts" in refused.value.hint
    assert "overwrite" in refused.value.hint


@pytest.mark.parametrize("text", ["[1, 2", "[NaN]", "[" * 300 + "]" * 300, "[" + "1," * 200_000 + "1]", "", "nothing"])
def test_text_that_cannot_be_parsed_as_a_list_becomes_a_list_of_one_item(text):
    assert read(TOOLS["repl_output_log"].arguments, inputs=text) == {"inputs": [text]}


@pytest.mark.parametrize("tool", TOOLS)
def test_arguments_that_are_already_valid_are_not_changed(tool):
    """Reading twice gives the same result as reading once."""
    model = TOOLS[tool].arguments
    for field in model_fields(model).values():
        for value in values_of(field.expected):
            once = read(model, **{field.name: value})
            assert read(model, **once) == once


def test_only_unusually_written_paths_are_looked_up_on_disk():
    model = TOOLS["load_file"].arguments
    usual, unusual = ("m.py", "/w/m.py", "a b.py", "C:\\m.py"), ("file:///m.py", "@m.py", "m.py:1", "`m.py`", "m.py#L3")
    assert not any(has_unusual_path(model, {"filePath": path}) for path in usual)
    assert all(has_unusual_path(model, {"path": path}) for path in unusual)
    assert has_unusual_path(TOOLS["edit_files"].arguments, {"edits": '{"path": "@m.py"}'})


class TestOnServer:
    pytestmark = pytest.mark.served("python")

    @pytest.fixture(autouse=True)
    def file(self, live):
        (live.workspace / "m.py").write_text("x = 1\n")
        return live.workspace / "m.py"

    def test_code_that_looks_like_json_is_not_parsed(self, client):
        assert client.call("evaluate_code", code="[1, 2]", frame=None, timeoutMs=60_000)["result"] == "[1, 2]"

    def test_lists_can_be_passed_as_json_text(self, client, file):
        edits = json.dumps([{"filePath": "m.py", "oldText": "x = 1", "newText": "x = 2"}])
        assert client.call("edit_files", edits=edits)["ok"]
        assert file.read_text() == "x = 2\n"
        query = "[:find ?l :in $ ?w :where [?e :output/who ?w] [?e :output/line ?l]]"
        assert client.call("repl_output_log", query=query, inputs='["nobody"]')["ok"]

    def test_a_list_added_by_a_feature_can_be_passed_as_json_text(self, client):
        needs.features("traces")
        traced = client.call("evaluate_code", code="import json\njson.dumps(1)", trace='["json"]')
        assert "json.dumps" in json.dumps(traced["trace"])

    @pytest.mark.parametrize(
        "written", ["{uri}", "{uri}#L1", "m.py:1", "m.py:1:2", "m.py:1-2", "@m.py", "`m.py`", "@m.py:1", "./m.py#L1-L2"]
    )
    def test_a_file_path_can_be_written_in_many_ways(self, client, file, written):
        path = written.format(uri=file.as_uri())
        assert client.call("load_file", filePath=path)["ok"]
        edited = client.call("edit_files", edits=[{"file": path, "oldText": "x = 1", "newText": "x = 3"}])
        assert (edited["ok"], file.read_text()) == (True, "x = 3\n")
