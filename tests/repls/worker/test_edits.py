"""After an edit is loaded, each name is as in a fresh import, or the answer reports the difference.

`tests/support/edits_of_values.py` and its neighbours contain the edits, of which a sample runs here.
`tests/bench/edit_outcomes.py` runs all of them. What no import can show is silent: those edits expect to be
`invisible`.
"""

import subprocess
import sys

import edits_of_applications
import edits_of_assortments
import edits_of_branches
import edits_of_classes
import edits_of_combinations
import edits_of_commits
import edits_of_crafts
import edits_of_departments
import edits_of_features
import edits_of_frameworks
import edits_of_guilds
import edits_of_idioms
import edits_of_layouts
import edits_of_libraries
import edits_of_mixtures
import edits_of_objects
import edits_of_packages
import edits_of_parishes
import edits_of_patterns
import edits_of_programs
import edits_of_projects
import edits_of_reviews
import edits_of_services
import edits_of_sites
import edits_of_systems
import edits_of_tools
import edits_of_tutorials
import edits_of_values
import edits_of_ventures
import edits_of_weeks
import edits_of_workflows
import pytest
from alike import rounds
from edit_cases import judge, run
from needs import do_without
from web_application import PYTHON

if sys.platform == "win32":
    pytest.skip("each edit runs in a fork", allow_module_level=True)

EVERY = rounds(6, 36)
TABLES = {
    "values": edits_of_values.ALL[::EVERY],
    "assortments": edits_of_assortments.ALL[::EVERY],
    "branches": [*edits_of_branches.KINDS, *edits_of_branches.ALL[len(edits_of_branches.KINDS) :: 2 * EVERY]],
    "classes": edits_of_classes.ALL[::EVERY],
    "combinations": edits_of_combinations.ALL[::EVERY],
    "frameworks": edits_of_frameworks.ALL[::EVERY],
    "features": edits_of_features.ALL[::EVERY],
    "guilds": edits_of_guilds.ALL[:: 2 * EVERY],
    "idioms": edits_of_idioms.ALL[::EVERY],
    "layouts": edits_of_layouts.ALL[::EVERY],
    "libraries": edits_of_libraries.ALL[::EVERY],
    "mixtures": edits_of_mixtures.ALL[::EVERY],
    "programs": edits_of_programs.ALL[::EVERY],
    "applications": edits_of_applications.ALL[::EVERY],
    "packages": edits_of_packages.ALL[::EVERY],
    "parishes": edits_of_parishes.ALL[:: 2 * EVERY],
    "patterns": edits_of_patterns.ALL[::EVERY],
    "projects": edits_of_projects.ALL[::EVERY],
    "services": edits_of_services.ALL[::EVERY],
    "objects": edits_of_objects.ALL[::EVERY],
    "reviews": edits_of_reviews.ALL[:: 2 * EVERY],
    "commits": edits_of_commits.ALL[::EVERY],
    "crafts": edits_of_crafts.ALL[:: 2 * EVERY],
    "departments": edits_of_departments.ALL[:: 2 * EVERY],
    "sites": edits_of_sites.ALL[::EVERY],
    "systems": edits_of_systems.ALL[::EVERY],
    "tools": edits_of_tools.ALL[::EVERY],
    "tutorials": edits_of_tutorials.ALL[::EVERY],
    "ventures": edits_of_ventures.ALL[::EVERY],
    "weeks": edits_of_weeks.ALL[::EVERY],
    "workflows": edits_of_workflows.ALL[::EVERY],
}


@pytest.fixture(scope="module")
def outcomes():
    """Return the outcome of every edit, by the name of its table."""
    libraries = sorted({name for table in TABLES.values() for item in table for name in item.needs})
    command = [PYTHON, "-c", "import " + ", ".join(libraries)]
    if not PYTHON.exists() or subprocess.run(command, check=False, capture_output=True).returncode:
        do_without("make tests/seam/.venv with tests/seam/applications.txt")
    return {name: run(table, PYTHON) for name, table in TABLES.items()}


@pytest.mark.parametrize("name", TABLES)
def test_loading_an_edit_gives_the_same_state_as_a_fresh_import_or_a_note(outcomes, name):
    judged = [(item, *judge(outcome)) for item, outcome in zip(TABLES[name], outcomes[name], strict=True)]
    silent = {"silent": "invisible"}
    wrong = [
        (element.name, found, why) for element, found, why in judged if silent.get(found, found) != element.expects
    ]
    assert wrong == []
