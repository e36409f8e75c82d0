"""The packages that a warm process may preload: those that are installed for these tests are preloaded."""

import importlib.metadata
import sys

import anyio
import pytest
import warm_runs
from warm_runs import differences

from codriver.features.warm_tests.known_packages import (
    DATA_PACKAGES,
    KNOWN_PACKAGES,
    OTHER_PACKAGES,
    TEST_PACKAGES,
    WEB_PACKAGES,
    is_known,
)
from codriver.features.warm_tests.warm_options import IS_FORK_SAFE


def installed_packages(packages):
    """Return those of the packages that are installed for these tests."""
    installed = {
        file.parts[0].partition(".")[0]
        for distribution in importlib.metadata.distributions()
        for file in distribution.files or ()
        if file.suffix in (".py", ".so")
    }
    return sorted(packages & installed)


@pytest.mark.slow
@pytest.mark.skipif(not IS_FORK_SAFE, reason="processes cannot be copied safely on this system")
@pytest.mark.parametrize(
    ("packages", "some"),
    [
        (TEST_PACKAGES, {"pytest", "hypothesis", "xdist"}),
        (DATA_PACKAGES, {"numpy", "pandas"}),
        (WEB_PACKAGES, {"pydantic", "starlette", "click", "cryptography"}),
        (OTHER_PACKAGES, {"yaml", "jsonschema", "toolz"}),
    ],
    ids=["test", "data", "web", "other"],
)
def test_each_known_package_is_preloaded_and_no_other_one(tmp_path, packages, some):
    names = installed_packages(packages)
    assert some <= {*names}
    imports = "".join(f"import {name}\n" for name in names)

    async def act():
        files = {
            "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
            "test_a.py": f"{imports}def test_a(): pass\n",
        }
        async with warm_runs.project(sys.executable, tmp_path, files) as made:
            warm = await made.warm_up()
            assert warm.is_warm, (made.status, warm.output)
            assert differences(await made.plain(), warm) == []
            return made.preloaded

    preloaded = anyio.run(act)
    assert {*names} - preloaded == set()
    assert {name for name in preloaded if is_unknown(name)} == set()


def is_unknown(name):
    """Return whether a module is in an unknown package, except for those that native code adds to `sys.modules`."""
    top = name.partition(".")[0]
    return not (
        is_known(name, KNOWN_PACKAGES)
        or top in sys.stdlib_module_names
        or top.startswith(("_cython_", "cython_runtime", "_cyutility", "_openssl", "_sysconfigdata_", "__mp_main__"))
        or top.endswith("__mypyc")
        or any(package.startswith(f"{name}.") for package in KNOWN_PACKAGES)
    )


def test_parts_of_a_namespace_package_are_known_without_the_others():
    assert is_known("google.protobuf.message", KNOWN_PACKAGES)
    assert not is_known("google.cloud", KNOWN_PACKAGES)
    assert not is_known("google", KNOWN_PACKAGES)
    assert not is_known("numpy_extension", KNOWN_PACKAGES)
