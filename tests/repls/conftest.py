import pytest

from repls.adapter_contract import NAMES


@pytest.fixture(params=NAMES)
def name(request):
    """Return a kind of REPL: each fulfils the contract."""
    return request.param
