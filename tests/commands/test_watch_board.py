"""What `codriver watch` shows, without a terminal: any text fits any screen, and every key is read as what it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.commands.terminal import plain
from codriver.commands.watch_board import ERRORS, MAX_EVENTS, MAX_ROWS, Board, View, clean, fit, next_filter, width
from codriver.commands.watch_screen import KEYS, named_keys

NOW = 1_700_000_000_000


def entry(line, category, text, **more):
    return {"line": line, "category": category, "text": text, "timestamp": NOW + line, **more}


def code(line, text="(+ 1 2)", who="ann", evaluation=None):
    more = {"who": who, "repl-session-key": "clj", "evaluation": evaluation or f"e{line}"}
    return entry(line, "evaluatedCode", text, **more)


def screen(board, view=None, columns=120, lines=24):
    return [plain(line) for line in board.screen(view or View(), columns, lines, NOW + 5000)]


TEXTS = st.text(max_size=60) | st.text("a漢é\u0301\u202e\x1b[31m\n\t\ud83d🙂", max_size=60)
ENTRIES = st.lists(
    st.builds(
        lambda line, category, text, who, evaluation: entry(line, category, text, who=who, evaluation=evaluation),
        st.integers(1, 99),
        st.sampled_from(["evaluatedCode", "evaluationResults", "evaluationErrorOutput", "otherOutput"]),
        TEXTS,
        TEXTS,
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=12,
)


@given(ENTRIES, st.integers(1, 150), st.integers(1, 12), TEXTS)
def test_a_screen_is_full_and_no_line_is_wider_than_it(entries, columns, lines, search):
    board = Board("watching")
    board.take(entries)
    for view in (View(), View(search=search), View(search=search, typing=True), View(paused_at=3)):
        shown = screen(board, view, columns, lines)
        assert len(shown) == lines
        assert all(width(line) <= columns for line in shown)
        assert all(clean(line) == " ".join(line.split()) for line in shown)


@given(TEXTS, st.integers(0, 40))
def test_a_fitted_text_takes_exactly_its_cells(text, cells):
    assert width(fit(clean(text), cells)) == cells


@given(st.text())
def test_a_clean_text_has_nothing_that_moves_a_cursor_and_is_clean_already(text):
    assert clean(clean(text)) == clean(text)
    assert all(char.isprintable() or char == "\ufffd" or ord(char) > 0x7F for char in clean(text))
    assert not set(clean(text)) & set("\x1b\x9b\x07\b\r\n\t\u202e\u2028")


def test_rows_follow_their_evaluation_however_lines_of_several_mix():
    board = Board("watching")
    board.take([code(1, evaluation="a"), code(2, "(f)", "bob", evaluation="b")])
    board.take([entry(3, "evaluationOutput", "b says\nmore\n", evaluation="b", who="bob")])
    board.take([entry(4, "evaluationResults", "3", evaluation="a", who="ann")])
    board.note_status("a", {"status": "done", "elapsedMs": 1234})
    ann, bob = [line for line in screen(board) if "clj" in line]
    assert "= 3" in ann
    assert ann.endswith("1.2 s")
    assert "… b says more" in bob
    assert board.unfinished() == ["b"]
    board.take([entry(5, "evaluationResults", ":done", evaluation="b", who="bob")])
    board.note_status("b", {"status": "done", "elapsedMs": 5})
    assert any("= :done  (and output)" in line for line in screen(board))


def test_what_a_server_has_forgotten_is_not_asked_for_again():
    board = Board("watching")
    board.take([code(1)])
    board.note_status("e1", {"ok": False, "reason": "unknown-evaluation"})
    assert board.unfinished() == []


def test_the_newest_rows_are_kept():
    board = Board("watching")
    board.take(code(line) for line in range(1, MAX_ROWS + 11))
    assert (len(board.rows), board.rows[0].line) == (MAX_ROWS, 11)
    assert board.unfinished()[0] == "e11"


def event(line, text="7 fx db/write app", **more):
    return entry(
        line, "appEvent", text, **{"who": "ann", "evaluation": "e1", "op": "fx", "repl-session-key": "py", **more}
    )


def test_an_event_of_an_application_is_a_row_and_ends_no_evaluation():
    board = Board("watching")
    board.take([code(1), event(2), event(3, "8 error boom", op="error", who="", evaluation=None)])
    lines = screen(board)
    assert any("ann" in line and "py" in line and line.endswith("7 fx db/write app") for line in map(str.rstrip, lines))
    assert board.unfinished() == ["e1"]
    assert [row.text for row in board.shown(View(only=ERRORS))] == ["8 error boom"]
    assert board.callers() == ["ann"]


def test_events_of_applications_can_be_hidden_and_the_foot_says_by_which_key():
    board = Board("watching")
    board.take([code(1)])
    assert "a hide app" not in screen(board)[-1]
    board.take([event(2)])
    assert "a hide app" in screen(board)[-1]
    hidden = screen(board, View(hides_events=True))
    assert "a show app" in hidden[-1]
    assert not any("db/write" in line for line in hidden)


def test_a_flood_of_events_takes_no_evaluation_off_the_board():
    board = Board("watching")
    board.take([code(1)])
    board.take(event(line) for line in range(2, MAX_ROWS + 100))
    assert (len(board.rows), board.rows[0].evaluation, board.rows[-1].line) == (MAX_EVENTS + 1, "e1", MAX_ROWS + 99)


def test_output_whose_code_has_left_the_log_still_has_a_row():
    board = Board("watching")
    board.take([entry(7, "evaluationResults", "42", who="ann", evaluation="old")])
    assert any("42" in line for line in screen(board))


def test_the_filter_goes_round_everything_errors_and_callers_both_ways():
    ring = [None, ERRORS, "ann", "bob"]
    for place, current in enumerate(ring):
        assert next_filter(["ann", "bob"], current, 1) == ring[(place + 1) % 4]
        assert next_filter(["ann", "bob"], current, -1) == ring[place - 1]
    assert next_filter([], "gone", 1) == ERRORS


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("\x1b", ["escape"]),
        ("\x1bq", ["escape", "q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOAx", ["up", "x"]),
        ("a\x1b[5~b", ["a", "page-up", "b"]),
        ("\x1b[1;5C", []),
        ("\x1b[", []),
        ("/ö\r", ["/", "ö", "enter"]),
        ("\x00\x01", []),
    ],
)
def test_keys_are_told_from_what_a_terminal_sends(sent, keys):
    assert list(named_keys(sent)) == keys


@given(st.text("\x1b[O~AB;15qö \x7f\x00", max_size=20))
def test_any_input_is_read_to_its_end_as_keys_and_characters(sent):
    assert all(key in KEYS.values() or (len(key) == 1 and key.isprintable()) for key in named_keys(sent))


@pytest.mark.parametrize(
    ("took_ms", "shown"),
    [(7, " 7 ms"), (59_900, " 59.9 s"), (754_000, " 12 m 34 s"), (3_599_000, " 59 m 59 s"), (86_340_000, " 23 h 59 m")],
)
def test_the_time_an_evaluation_took_stands_whole_at_the_end_of_its_row(took_ms, shown):
    board = Board(head="h")
    board.take([{"line": 1, "category": "evaluatedCode", "timestamp": 0, "text": "1", "who": "a", "evaluation": "e1"}])
    board.note_status("e1", {"status": "done", "elapsedMs": took_ms})
    assert plain(board.screen(View(), 80, 4, now=0)[1]).endswith(shown)


def word(line, text, *, wrong=False, evaluation="e1"):
    return entry(line, "otherErrorOutput" if wrong else "otherOutput", text, who="ann", evaluation=evaluation)


def outcomes(board, columns=140):
    return [" ".join(line.split()) for line in screen(board, columns=columns)[1:-1] if line.strip()]


def under_way(**more):
    return {"kind": "run-tests", "evaluationId": "t1", "who": "ann", "sessionKey": "py", "status": "running",
            "code": "all tests", "began": NOW, **more}  # fmt: skip


def test_tests_are_a_row_while_they_run_and_when_they_are_over():
    board = Board("watching")
    board.note_tests([under_way(), under_way(kind="evaluate", evaluationId="e9")])
    assert board.unfinished() == ["t1"]
    board.note_status("t1", {"status": "running", "elapsedMs": 5, "tests": 3, "of": 7, "failed": 1, "errors": 1})
    assert "tests: all tests … 3 of 7, 2 red" in outcomes(board)[0]
    ran = "ann ran all tests: 7 tests, 5 passed, 1 failed, 1 error: t.py/test_a, t.py/test_b"
    board.take([word(1, ran, wrong=True, evaluation="t1")])
    board.note_status("t1", {"ok": False, "status": "failed", "elapsedMs": 4000, "error": {"message": "1 failed"}})
    assert "tests: all tests ✗ 2 of 7 red: t.py/test_a, t.py/test_b" in outcomes(board)[0]
    assert "1 caller 0 running 1 error live" in " ".join(screen(board, columns=140)[0].split())
    board.take([word(2, "bob ran t.py: 2 tests, 2 passed, 0 failed, 0 errors", evaluation="t2")])
    assert outcomes(board)[1].endswith("tests: t.py = 2 passed")
    stopped = "bob ran t.py: 1 test, 1 passed, 0 failed, 0 errors; stopped in t.py/test_slow"
    board.take([word(3, stopped, wrong=True, evaluation="t3")])
    assert "✗ stopped in t.py/test_slow" in outcomes(board)[2]
    assert board.unfinished() == []


def test_a_load_is_told_by_its_file_and_not_by_the_text_of_it():
    board = Board("watching", root="/ws")
    board.take([word(1, "load /ws/src/prices.py"), code(2, "Prices.\n", evaluation="e1")])
    board.take([word(3, "why I look", evaluation="e2"), code(4, "1 + 1", evaluation="e2")])
    assert "load src/prices.py" in outcomes(board)[0]
    assert "Prices" not in outcomes(board)[0]
    assert "1 + 1" in outcomes(board)[1]


def test_a_picture_is_marked_and_the_value_beside_it_stands():
    board = Board("watching")
    picture = "<Figure> <<image/png 640x480, 22 KB, sha256:0123456789abcdef>>"
    board.take([code(1), entry(2, "evaluationResults", picture, evaluation="e1")])
    board.note_status("e1", {"status": "done", "elapsedMs": 5})
    assert "= <Figure> (1 picture)" in outcomes(board)[0]
    board.take([entry(3, "evaluationResults", picture, evaluation="e1")])
    board.take([entry(4, "evaluationResults", "None", evaluation="e1")])
    assert "(2 pictures)" in outcomes(board)[0]
    assert len(board.shown(View(search="picture"))) == 1


def test_the_reason_of_an_interruption_is_what_the_server_says_and_no_output():
    board = Board("watching")
    board.take([code(1), entry(2, "evaluationOutput", "name?", evaluation="e1")])
    board.note_status("e1", {"status": "interrupted", "elapsedMs": 5})
    assert "✗ interrupted (and output)" in outcomes(board)[0]
    board.take([word(3, "evaluation e1 of ann: asked to by bob", wrong=True)])
    assert "✗ asked to by bob (and output)" in outcomes(board)[0]
    board.take([code(4), word(5, "evaluation e4 of ann was lost: it died", wrong=True, evaluation="e4")])
    assert "it died" in outcomes(board)[1]


def test_what_ran_when_its_server_ended_is_over_and_keeps_no_clock():
    board = Board("watching")
    board.take([code(1), code(2)])
    board.note_status("e2", {"status": "done", "elapsedMs": 5})
    board.end_server(NOW + 3001)
    assert board.unfinished() == []
    assert outcomes(board)[0].endswith("✗ its server ended 3.0 s")
    assert "its server ended" not in outcomes(board)[1]


def test_the_keys_are_told_where_one_asks_and_no_line_of_them_is_too_wide():
    board = Board("watching")
    board.take([code(1)])
    shown = screen(board, View(shows_keys=True), columns=60, lines=12)
    assert any("PgUp" in line for line in shown)
    assert not any("(+ 1 2)" in line for line in shown)
    assert all(width(line) <= 60 for line in shown)
    assert "? keys" in screen(board, columns=80)[-1]
