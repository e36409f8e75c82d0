"""The packages that a warm process may preload, besides the standard library.

Whether a package can be imported ahead of time depends on what its import does. Some imports store the time or the
process, check which modules are loaded, or change objects of other packages. No rule finds all of these, so the warm
process preloads only packages whose imports have been checked. Runs import all other packages themselves, like a new
process does, and also the known packages that import one of those.

To add a package, read what its modules do when they are imported, and add everything that they require. An import may
read environment variables and files, issue warnings, create loggers, register functions and add entries to containers
of other modules, because these are recorded (see `child.preload`). Do not add a package whose import, in a way that
tests may notice,

- stores the time, random numbers, the process id, or a standard stream, as structlog does,
- copies modules of the standard library, as coverage does,
- calls a function of another package that changes hidden state, such as `mimetypes.add_type` in openpyxl,
- defines different things depending on what was imported before, or
- replaces functions of the standard library, as gevent does.
"""

from __future__ import annotations

from typing import Final

TEST_PACKAGES: Final = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "colorama",
    "pytest_asyncio", "pytest_cov", "pytest_mock", "pytest_timeout", "pytest_django", "pytest_httpx",
    "pytest_rerunfailures", "xdist", "execnet", "hypothesis", "_hypothesis_pytestplugin", "_hypothesis_globals",
    "_hypothesis_ftz_detector", "sortedcontainers", "faker", "factory", "freezegun", "responses", "respx",
    "requests_mock", "parameterized", "dirty_equals", "trustme",
})  # fmt: skip
"""pytest, its usual plugins, and other packages for tests."""
DATA_PACKAGES: Final = frozenset({
    "numpy", "pandas", "scipy", "sklearn", "joblib", "threadpoolctl", "narwhals", "bottleneck", "matplotlib",
    "mpl_toolkits", "cycler", "kiwisolver", "contourpy", "pyparsing", "fontTools", "PIL", "pyarrow", "polars",
    "_polars_runtime_32", "_polars_runtime_64", "_polars_runtime_compat", "networkx", "sympy", "mpmath", "torch",
    "functorch", "torchgen", "fsspec", "cv2", "cloudpickle", "dateutil", "six", "pytz", "tzdata", "tzlocal",
})  # fmt: skip
"""Packages for data, mathematics, images and dates."""
WEB_PACKAGES: Final = frozenset({
    "pydantic", "pydantic_core", "pydantic_settings", "annotated_types", "annotated_doc", "typing_extensions",
    "typing_inspection", "email_validator", "dns", "fastapi", "starlette", "uvicorn", "python_multipart", "anyio",
    "sniffio", "h11", "h2", "hpack", "hyperframe", "wsproto", "websockets", "httpx", "httpcore", "certifi", "idna",
    "requests", "urllib3", "charset_normalizer", "chardet", "brotli", "_brotli", "zstandard", "aiohttp", "aiosignal",
    "aiohappyeyeballs", "frozenlist", "multidict", "yarl", "propcache", "async_timeout", "tornado", "trio", "outcome",
    "django", "asgiref", "sqlparse", "rest_framework", "flask", "werkzeug", "jinja2", "markupsafe", "itsdangerous",
    "blinker", "click", "typer", "rich", "markdown_it", "mdurl", "pygments", "marshmallow", "jwt", "cryptography",
    "bcrypt", "OpenSSL", "cffi", "_cffi_backend", "pycparser", "grpc", "google.protobuf", "google._upb", "boto3",
    "botocore", "s3transfer", "jmespath", "xmltodict", "celery", "kombu", "billiard", "vine", "amqp", "redis",
    "opentelemetry._logs", "opentelemetry.attributes", "opentelemetry.baggage", "opentelemetry.context",
    "opentelemetry.environment_variables", "opentelemetry.metrics", "opentelemetry.propagate",
    "opentelemetry.propagators", "opentelemetry.trace", "opentelemetry.util",
})  # fmt: skip
"""Packages for the web, networks and asynchronous code."""
OTHER_PACKAGES: Final = frozenset({
    "sqlalchemy", "greenlet", "alembic", "mako", "aiosqlite", "psycopg", "psycopg_binary", "psycopg2", "attr", "attrs",
    "cattrs", "yaml", "_yaml", "tomlkit", "tomli_w", "orjson", "ujson", "simplejson", "msgpack", "jsonschema",
    "jsonschema_specifications", "referencing", "rpds", "lxml", "bs4", "soupsieve", "html5lib", "webencodings",
    "defusedxml", "dotenv", "platformdirs", "filelock", "psutil", "pathspec", "tqdm", "tabulate", "wcwidth",
    "prompt_toolkit", "markdown", "toolz", "more_itertools", "cachetools", "humanize", "regex", "tenacity",
    "deprecated", "wrapt",
})  # fmt: skip
"""Packages for databases, file formats and everything else."""
KNOWN_PACKAGES: Final = TEST_PACKAGES | DATA_PACKAGES | WEB_PACKAGES | OTHER_PACKAGES
"""All packages that may be preloaded. Names with dots are parts of namespace packages."""


def is_known(name: str, packages: frozenset[str]) -> bool:
    """Return whether a module is one of these packages or in one of them."""
    parts = name.split(".")
    return any(".".join(parts[:end]) in packages for end in range(1, len(parts) + 1))
