"""Commands of features are found without the base knowing them, and do not slow down commands of the base."""

import subprocess
import sys

import needs
import pytest
from click.testing import CliRunner

from codriver.app.features import EXTENDED, features
from codriver.commands.cli import COMMAND_MODULES, cli

ADDED = [command for feature in features() for command in feature.commands]
LOADED = """
import sys
from codriver.commands.cli import cli
try:
    cli.main({words!r}, standalone_mode=False)
finally:
    print("LOADED", sorted(name for name in sys.modules if name.startswith(("codriver.features.", "pydantic."))))
"""


def loaded(*words):
    """Return the modules of features and of pydantic that these words load."""
    done = subprocess.run([sys.executable, "-c", LOADED.format(words=list(words))], capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    return done.stdout.rpartition("LOADED ")[2].strip()


@pytest.mark.parametrize("words", [("--version",), ("eval", "--help")])
def test_a_base_command_imports_no_feature(words):
    assert loaded(*words) == "[]"


@pytest.mark.parametrize("command", ADDED, ids=lambda item: item.name)
def test_a_feature_command_is_listed_and_can_be_run(command):
    assert command.name not in COMMAND_MODULES
    assert f"  {command.name} " in CliRunner().invoke(cli, ["--help"]).output
    assert CliRunner().invoke(cli, [command.name, "--help"]).exit_code == 0


def test_the_commands_that_features_extend_are_listed():
    needs.every_feature()
    assert {options.command for item in features() for options in item.options} == EXTENDED


def test_feature_commands_are_suggested_for_a_mistyped_command_too():
    needs.every_feature()
    found = CliRunner().invoke(cli, ["exprot"])
    assert (found.exit_code, "Did you mean `codriver export`?" in found.output) == (2, True)
