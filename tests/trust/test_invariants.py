"""Code that reads bytes from outside keeps its invariant for any input: a small run of each fuzzing target."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.drawing import sentence
from fuzz.targets import LONGEST, TARGETS

CASES = Path(__file__).parents[1] / "fuzz" / "cases"


def drawn(name):
    """Generate bytes of any kind, and texts from the target's own words, balanced or not."""
    numbers = st.binary(max_size=30)
    led = st.builds(lambda first, rest: first + sentence(name, b"\xff" + rest), st.binary(max_size=2), numbers)
    texts = st.text(max_size=60).map(lambda text: text.encode())
    return st.one_of(numbers.map(b"\xff".__add__), numbers.map(b"\xfe".__add__), led, st.binary(max_size=200), texts)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_the_invariant_of_a_parser(name):
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(drawn(name))
    def check(data):
        TARGETS[name](data)

    check()


@pytest.mark.parametrize("path", sorted(CASES.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_found_by_fuzzing_still_pass(path):
    TARGETS[path.parent.name](path.read_bytes()[:LONGEST])


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_states_its_invariant_in_one_sentence(name):
    assert re.fullmatch(r"[A-Z][^.]+\.", TARGETS[name].__doc__.partition("\n")[0])
