"""Skills, which are short guides for agents. They are served as `skill://` resources.

A skill is a directory with a `SKILL.md` that starts with front matter (`name`, which is also the directory's name, and
`description`). Skills are searched for in these locations. If two skills have the same name, the first one is used.

* the workspace: `.codriver/skills/<name>/`, source `workspace`
* Codriver itself, source `codriver`
* Python packages in the workspace's `.venv` or `venv`: `<package>/skills/<name>/`, `<package>/.codriver/skills/<name>/`
* jars on the classpath that the Clojure CLI stores in `.cpcache/`, and in `lib/`: `META-INF/skills/<name>/`,
  `skills/<name>/`

A dependency's source is the name of the package, or of the jar without its version, and its skills are called
`lib.<source>/<name>`. Codriver's own skills are always available. Any other skill may contain a stranger's instructions
to the agent, even one in a freshly cloned workspace. Such skills are only available if the setting `skillSources` names
their source. Otherwise they are not listed, cannot be read, and do not appear in the instructions.
"""

from codriver.skills.folders import GUIDE_FILE, MAX_FILES, TooManyFilesError
from codriver.skills.front_matter import FrontMatterError, read_front_matter
from codriver.skills.instructions import MAX_INSTRUCTIONS_CHARACTERS, DescribedRepl, build_instructions
from codriver.skills.library import (
    DEPENDENCY_PREFIX,
    EDITING_SKILL,
    LIVE_APP_SKILL,
    LIVE_REPL_SKILL,
    URI_PREFIX,
    FoundSkills,
    Skill,
    SkillLibrary,
    SkillSelection,
    disabled_skills,
    sort_key,
)
from codriver.skills.skill_discovery import OWN_SOURCE

__all__ = [
    "DEPENDENCY_PREFIX",
    "EDITING_SKILL",
    "GUIDE_FILE",
    "LIVE_APP_SKILL",
    "LIVE_REPL_SKILL",
    "MAX_FILES",
    "MAX_INSTRUCTIONS_CHARACTERS",
    "OWN_SOURCE",
    "URI_PREFIX",
    "DescribedRepl",
    "FoundSkills",
    "FrontMatterError",
    "Skill",
    "SkillLibrary",
    "SkillSelection",
    "TooManyFilesError",
    "build_instructions",
    "disabled_skills",
    "read_front_matter",
    "sort_key",
]
