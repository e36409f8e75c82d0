"""The values that core, adapters and tools share: what their functions say of them."""

import pytest

from codriver.core.values import checkpoint_name


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("checkpoint: here", "here"),
        (" Checkpoint :  the parser\n works ", "the parser works"),
        ("checkpoint: a: b", "a: b"),
        ("checkpoint", ""),
        ("checkpoint: ", ""),
        ("set a checkpoint: here", ""),
        ("", ""),
    ],
)
def test_the_name_of_a_checkpoint_is_all_behind_the_first_colon_on_one_line(description, name):
    assert checkpoint_name(description) == name
