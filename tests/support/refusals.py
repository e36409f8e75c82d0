"""Expect a refusal in a test by the reason that clients see: most have no class of their own."""

from contextlib import contextmanager

import pytest

from codriver.errors import RefusedError


@contextmanager
def refused_as(*reasons, match=None):
    """Expect a refusal with one of these reasons; yields what `pytest.raises` yields."""
    with pytest.raises(RefusedError, match=match) as caught:
        yield caught
    assert caught.value.reason in reasons
