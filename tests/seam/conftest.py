"""A new seam for each test."""

import pytest
from seam_lisp import started
from seam_shop import Shop

import codriver_seam as seam
from codriver_seam import recording


@pytest.fixture(autouse=True)
def _fresh():
    recording.reset()
    seam.install(True)
    yield
    recording.reset()


@pytest.fixture
def shop():
    made = Shop()
    seam.frame(
        "shop", lambda: made.state, made.put, validate=made.check, dispatch=made.handle,
        enqueue=made.queue.append, sensitive=[("user", "token")],
    )  # fmt: skip
    return made


@pytest.fixture(scope="session", params=["jvm", "nbb"])
def lisp_process(request):
    """Run a Clojure or an nbb for all tests: both take seconds to load the seam."""
    lisp = started(request.param)
    yield lisp
    lisp.close()


@pytest.fixture
def lisp(lisp_process):
    """Return the same process with a new shop."""
    lisp_process.run("(shop/open!)")
    return lisp_process
