"""A server that answers plain requests itself says what one says that leaves every message to the SDK."""

import both_ways
import pytest
from alike import rounds

SEQUENCES = rounds(150, 60)
"""In a few seconds. `python tests/support/both_ways.py 10000 --seed 7` tries as many as you like."""


@pytest.mark.parametrize("seed", [7])
def test_nobody_can_tell_by_the_answers_which_way_a_message_went(tmp_path, seed):
    with both_ways.two_servers(tmp_path) as servers:
        for difference in both_ways.differences(servers, SEQUENCES, seed):
            pytest.fail(both_ways.report(seed, *difference))
