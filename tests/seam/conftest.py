"""A seam that is new in each test."""

import pytest
from seam_shop import Shop

import codriver_seam as seam
from codriver_seam import recording


@pytest.fixture(autouse=True)
def _fresh():
    recording.forget()
    seam.install(True)
    yield
    recording.forget()


@pytest.fixture
def shop():
    made = Shop()
    seam.frame(
        "shop", lambda: made.state, made.put, validate=made.check, dispatch=made.handle,
        enqueue=made.queue.append, sensitive=[("user", "token")],
    )  # fmt: skip
    return made
