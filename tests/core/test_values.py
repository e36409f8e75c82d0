"""Values shared by core, adapters and tools."""

import pytest

from codriver.core.checkpoints import checkpoint_name


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
def test_a_checkpoint_name_is_everything_after_the_first_colon_on_one_line(description, name):
    assert checkpoint_name(description) == name
