"""What a test needs and may not find."""

import os

import pytest


def do_without(words):
    """Fail where everything must be there, skip where a developer may lack something; `words` say what to install."""
    pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)
