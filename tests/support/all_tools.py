"""The tools of a server with every feature, for tests of the listed tools."""

from codriver.app.features import manifest

MANIFEST = manifest().tools
BY_NAME = manifest().by_name
DEFAULT = manifest().default
FOR_HOOKS = {tool.name: tool for tool in manifest().for_hooks}
