"""A refusal that a test expects, by the reason that clients see: most have no class of their own."""

from contextlib import contextmanager

import pytest

from codriver.errors import RefusedError


@contextmanager
def refused_as(*reasons, match=None):
    """Expect a refusal with one of these reasons; what is yielded is that of `pytest.raises`."""
    with pytest.raises(RefusedError, match=match) as caught:
        yield caught
    assert caught.value.reason in reasons
