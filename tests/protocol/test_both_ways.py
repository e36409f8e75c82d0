"""A server that answers plain requests itself gives the same answers as one that leaves every message to the SDK."""

import both_ways
import pytest
from alike import rounds

SEQUENCES = rounds(150, 60)
"""In a few seconds. `python tests/support/both_ways.py 10000 --seed 7` tries as many as you like."""


@pytest.mark.parametrize("seed", [7])
def test_both_request_paths_give_the_same_answers_to_random_sequences(tmp_path, seed):
    with both_ways.two_servers(tmp_path) as servers:
        for difference in both_ways.differences(servers, SEQUENCES, seed):
            pytest.fail(both_ways.report(seed, *difference))
