"""Texts about recorded runs."""

import pytest
from made_runs import SHOP, TWO_PRICES, run_text

from codriver.features.traces.outline import (
    MAX_OUTLINE_BYTES,
    MAX_OUTLINE_LINES,
    MORE_CALLS_HINT,
    list_calls,
    outline_run,
)
from codriver.features.traces.recorded_runs import parse_run
from codriver.features.traces.run_comparison import compare_runs, format_differences


def run(*calls, **more):
    return parse_run("e1", run_text(*calls, **more))


def test_an_outline_is_a_tree_of_all_calls_if_they_fit():
    assert outline_run(parse_run("e1", TWO_PRICES)) == [
        "run e1: 5 calls to 3 functions",
        "#1 shop.total(list of 2) -> 46.0",
        "  #2 shop.price({'price': 2}, 3) -> 6",
        "    #3 shop.stored('tax') -> None",
        "  #4 shop.price({'price': 2}, 25) -> 40.0",
        "#5 shop.stored('rate') raised KeyError('rate')",
    ]


def test_equal_calls_are_folded():
    calls = [(0, "total", [], "1"), *[(1, "price", ["1"], "1")] * 3, (1, "price", ["2"], "2")]
    assert outline_run(run(*calls))[1:] == [
        "#1 shop.total() -> 1", "  #2 x3 shop.price(1) -> 1", "  #5 shop.price(2) -> 2",
    ]  # fmt: skip


def test_calls_that_differ_are_folded_if_not_all_of_them_fit():
    calls = [(0, "total", [], "1"), *((1, "price", [str(n)], str(n)) for n in range(MAX_OUTLINE_LINES))]
    assert outline_run(run(*calls)) == [
        f"run e1: 13 calls to 3 functions{MORE_CALLS_HINT}",
        "#1 shop.total() -> 1",
        "  #2 x12 shop.price(0) -> 0",
    ]


def test_an_outline_has_a_bounded_number_of_lines():
    calls = [(0, "total", [str(n)], "1") if n % 2 else (0, "price", ["{}", "1"], "2") for n in range(60)]
    lines = outline_run(run(*calls))
    assert len(lines) == MAX_OUTLINE_LINES
    assert lines[0] == f"run e1: 60 calls to 3 functions{MORE_CALLS_HINT}"


def test_calls_leading_to_an_error_come_first():
    calls = [(0, "total" if n % 2 else "stored", [str(n)], "1") for n in range(30)]
    calls += [(0, "total", ["bad"], "!KeyError('x')"), (31, "price", ["{}", "9"], "!KeyError('x')"),
              (32, "stored", ["'x'"], "!KeyError('x')")]  # fmt: skip
    outline = outline_run(run(*calls))
    assert "    #33 shop.stored('x') raised KeyError('x')" in outline
    assert "raised first in #33 shop.stored('x'): KeyError('x') < shop.price < shop.total" in outline
    assert len(outline) == MAX_OUTLINE_LINES


def test_the_outline_of_a_failed_run_includes_a_recently_changed_function():
    functions = [
        (*item, mark, changed) for item, mark, changed in zip(SHOP, (1, 2, 3), (5_000, 2_000, 9_000), strict=True)
    ]
    calls = [(0, "total", ["bad"], "!KeyError('x')")]
    calls += [(1, "total" if n % 2 else "price", [str(n) * 60], str(n)) for n in range(20)]
    calls += [(2, "stored", ["'x'"], "None")]
    outline = outline_run(run(*calls, functions=functions))
    assert outline[-1] == "changed last: #22 shop.stored('x') -> None"
    assert len("\n".join(outline).encode()) <= MAX_OUTLINE_BYTES
    redefined = run_text(*calls).replace('"/shop.py", 3, ["name"]', '"<eval 4>", 1, ["name"]')
    assert outline_run(parse_run("e1", redefined))[-1] == outline[-1]
    green = [(*call[:3], "1") for call in calls]
    assert not any("changed last" in line for line in outline_run(run(*green, functions=functions)))
    assert not any(
        "changed last" in line
        for line in outline_run(run(*calls[:1], (1, "stored", ["'x'"], "1"), functions=functions))
    )


def test_calls_inside_folded_calls_are_listed():
    calls = [(0, "total", [], "1"), (1, "price", ["1"], "1"), (1, "price", ["2"], "2"), (3, "stored", ["'x'"], "3")]
    calls += [(1, "price", [str(n)], "1") for n in range(MAX_OUTLINE_LINES)]
    assert outline_run(run(*calls))[1:] == [
        "#1 shop.total() -> 1", "  #2 x14 shop.price(1) -> 1", "    #4 shop.stored('x') -> 3",
    ]  # fmt: skip


def test_the_slowest_calls_are_named_by_their_own_time():
    found = run((0, "total", [], "1"), (1, "price", [], "2"))
    slow = (
        run_text((0, "total", [], "1"), (1, "price", [], "2"))
        .replace(", 0, 5, ", ", 0, 9000, ")
        .replace(", 10, 5, ", ", 10, 7000, ")
    )
    assert not any("longest self times" in line for line in outline_run(found))
    assert outline_run(parse_run("e1", slow))[-1] == "longest self times: #2 shop.price 7 ms, #1 shop.total 2 ms"


def test_the_outline_of_a_refused_recording_states_the_reason():
    assert outline_run(parse_run("e1", '{"refused": "all ids are taken"}')) == [
        "nothing was recorded: all ids are taken"
    ]


def test_a_call_is_expanded_by_its_number_and_found_by_its_name():
    found = parse_run("e1", TWO_PRICES)
    assert list_calls(found, [2], 9) == [
        "#2 shop.price(item={'price': 2}, amount=3) -> 6, 0.005 ms, shop.py:3, under #1 shop.total",
        "  #3 shop.stored('tax') -> None",
    ]
    assert list_calls(found, ["price"], 9) == [
        "2 calls to shop.price", "  #2 shop.price({'price': 2}, 3) -> 6", "  #4 shop.price({'price': 2}, 25) -> 40.0",
    ]  # fmt: skip
    assert list_calls(found, ["pric"], 9) == [
        "no call to pric was recorded. The recorded functions are shop.price, shop.stored, shop.total"
    ]
    assert list_calls(found, [9], 9) == ["there is no call 9. Calls are numbered from 1 to 5"]
    assert list_calls(found, ["price"], 2) == ["2 calls to shop.price", "  and 2 more"]


def compared(before, now, functions=SHOP):
    return format_differences(compare_runs(run(*before, functions=functions), run(*now, functions=functions)))


def test_the_innermost_call_with_equal_arguments_and_a_different_result_comes_first():
    before = [(0, "total", ["list of 1"], "36.0"), (1, "price", ["{'price': 2}", "20"], "36.0")]
    now = [(0, "total", ["list of 1"], "32.0"), (1, "price", ["{'price': 2}", "20"], "32.0")]
    assert compared(before, now) == [
        "#2 shop.price({'price': 2}, 20) 36.0 -> 32.0", "#1 shop.total(list of 1) 36.0 -> 32.0",
    ]  # fmt: skip


def test_a_caller_that_passes_different_arguments_is_reported_as_the_cause():
    before = [(0, "total", ["list of 1"], "36.0"), (1, "price", ["{'price': 2}", "20"], "36.0")]
    now = [(0, "total", ["list of 1"], "4"), (1, "price", ["{'price': 2}", "2"], "4")]
    assert compared(before, now) == [
        "#1 shop.total(list of 1) 36.0 -> 4",
        "#2 shop.price({'price': 2}, 20) -> 36.0 -> shop.price({'price': 2}, 2) -> 4",
    ]  # fmt: skip


def test_new_and_missing_calls_are_reported():
    before = [(0, "total", [], "1"), (1, "stored", ["'a'"], "1")]
    now = [(0, "total", [], "1"), (1, "price", ["{}", "1"], "!TypeError()")]
    assert compared(before, now) == [
        "#1 shop.total() makes different calls",
        "new: #2 shop.price({}, 1) raised TypeError()",
        "no longer: shop.stored('a') -> 1",
    ]  # fmt: skip


@pytest.mark.parametrize("calls", [[], [(0, "total", ["1"], "2")]])
def test_two_equal_runs_are_reported_without_differences(calls):
    assert compared(calls, calls) == []


def test_calls_missing_from_an_incomplete_recording_are_not_reported_as_differences():
    before = run((0, "total", [], "1"), (1, "price", ["{}", "1"], "2"))
    now = parse_run("e2", run_text((0, "total", [], "1")).replace("false", "true"))
    assert compare_runs(before, run((0, "total", [], "1")))
    assert compare_runs(before, now) == []


def test_calls_inside_a_failed_call_are_listed_before_others():
    calls = [(0, "total" if n % 2 else "stored", [str(n)], "1") for n in range(30)]
    calls += [(0, "total", ["bad"], "!AssertionError()"), (31, "price", ["{}", "9"], "8")]
    assert "  #32 shop.price({}, 9) -> 8" in outline_run(run(*calls))


LISP = (("my.shop", "total", [["items"]]), ("my.shop", "price", [["item"], ["item", "&", "more"]]))


def test_lisp_calls_are_written_as_forms_with_variadic_arguments():
    calls = [(0, "total", ["[1 2]"], "3"), (1, "price", ["1", "2", "3"], ":a"), (1, "price", ["1"], "!Error()")]
    item = run(*calls, functions=LISP, lisp=True)
    assert outline_run(item)[1:] == [
        "#1 (shop/total [1 2]) -> 3", "  #2 (shop/price 1 2 3) -> :a", "  #3 (shop/price 1) raised Error()",
    ]  # fmt: skip
    assert list_calls(item, [2], 9)[0].startswith("#2 (my.shop/price item=1 more=(2 3)) -> :a")
    for name in ("price", "shop/price", "my.shop/price"):
        assert list_calls(item, [name], 9)[0] == "2 calls to my.shop/price"


def test_an_unrealized_lazy_result_matches_any_result():
    before, now = (run((0, "total", ["1"], ended), functions=LISP, lisp=True) for ended in ("<lazy>", "(1)"))
    assert compare_runs(before, now) == []


def marked(mark, *calls):
    """Return a run in which the source of `price` has this mark."""
    rows = run_text(*calls)
    return parse_run("e1", rows.replace('["item", "amount"], 1, false', f'["item", "amount"], 1, false, {mark}'))


def test_a_function_whose_source_changed_is_reported_if_no_result_differs():
    calls = (0, "total", ["<Cart>"], "<Cart>"), (1, "price", ["{}", "1"], "<Price>")
    line = "#2 shop.price({}, 1) -> <Price>, its source changed"
    assert format_differences(compare_runs(marked(1, *calls), marked(2, *calls))) == [line]
    assert compare_runs(marked(1, *calls), marked(1, *calls)) == compare_runs(run(*calls), marked(2, *calls)) == []


def test_a_changed_function_is_listed_before_a_later_differing_call():
    def runs(place):
        for mark, ended in ((1, "3"), (2, "4")):
            calls = [(0, "total", ["<Cart>"], ended), (0, "stored", ["'x'"], "<X>")]
            calls.insert(place, (0, "price", ["{}", "1"], "<Price>"))
            yield marked(mark, *calls)

    changed, otherwise = "shop.price({}, 1) -> <Price>, its source changed", "shop.total(<Cart>) 3 -> 4"
    assert format_differences(compare_runs(*runs(0))) == [f"#1 {changed}", f"#2 {otherwise}"]
    assert format_differences(compare_runs(*runs(1))) == [f"#1 {otherwise}"]
