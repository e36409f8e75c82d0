import pytest

from repls.adapter_contract import NAMES


@pytest.fixture(params=NAMES)
def name(request):
    """A kind of REPL: a promise of the contract is kept by each."""
    return request.param
