"""The page of REPLs says of each what it can do: no more and no less than the running servers show."""

import pytest
import real_repls

from repls import capability_table

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", real_repls.NAMES)
async def test_the_page_says_what_the_server_can_do(name):
    said = capability_table.read(capability_table.PAGE.read_text())[name]
    assert said == await capability_table.marks(name), "run `python tests/repls/capability_table.py --write`"


@pytest.mark.parametrize("name", capability_table.KERNELS)
async def test_the_page_says_what_the_kernel_can_do(name):
    said = capability_table.read(capability_table.PAGE.read_text(), capability_table.MARKED_OF_KERNELS)[name]
    assert said == await capability_table.marks(name), "run `python tests/repls/capability_table.py --write`"
