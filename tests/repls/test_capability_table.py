"""The page on REPLs lists the capabilities of each REPL exactly as the running servers report them."""

import pytest
import real_repls

from repls import capability_table

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", real_repls.NAMES)
async def test_the_documentation_lists_the_capabilities_of_each_repl(name):
    output = capability_table.read(capability_table.PAGE.read_text())[name]
    assert output == await capability_table.marks(name), "run `python tests/repls/capability_table.py --write`"


@pytest.mark.parametrize("name", capability_table.KERNELS)
async def test_the_documentation_lists_the_capabilities_of_each_kernel(name):
    output = capability_table.read(capability_table.PAGE.read_text(), capability_table.MARKED_OF_KERNELS)[name]
    assert output == await capability_table.marks(name), "run `python tests/repls/capability_table.py --write`"
