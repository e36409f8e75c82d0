"""Determine whether calls to libraries and built-in types have no effects, or only add something to an object.

Evaluating a pure call again returns an equal value and changes nothing else.
"""

from __future__ import annotations

import types

from ...basics.definition_access import is_class, order_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PURE_MODULES = frozenset({
    "_collections", "_decimal", "_functools", "_operator", "_pydecimal", "_re", "_struct", "abc", "argparse", "base64",
    "bisect", "calendar", "collections", "collections.abc", "colorsys", "contextlib", "copy", "dataclasses", "datetime",
    "_pydatetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools", "genericpath", "hashlib",
    "_hashlib", "heapq", "html", "inspect", "ipaddress", "itertools", "json", "json.decoder", "json.encoder", "keyword",
    "math", "cmath", "ntpath", "numbers", "operator", "pathlib", "pathlib._local", "posixpath", "pprint", "re",
    "re._compiler", "reprlib", "statistics", "string", "string.templatelib", "struct", "textwrap", "token", "types",
    "typing", "typing_extensions", "unicodedata", "urllib.parse", "uuid", "zlib", "zoneinfo", "_collections_abc",
    "binascii", "_bisect", "_heapq", "_json", "attr", "attr._make", "attr._next_gen", "attrs", "importlib", "msgspec",
    "msgspec._core", "msgspec._json_schema", "msgspec.json", "msgspec.msgpack", "pydantic.fields", "click.decorators",
    "pydantic.main", "pydantic.type_adapter", "pydantic.config", "django.urls.conf", "django.urls",
    "pydantic_settings.main", "pydantic.functional_validators", "pydantic.functional_serializers", "pydantic.types",
    "_pytest.fixtures", "celery.canvas", "click.types", "django.core.validators", "django.db.models.fields",
    "django.db.models.fields.related", "django.forms.fields", "pydantic.root_model",
    "sqlalchemy.sql._elements_constructors", "sqlalchemy.sql._selectable_constructors",
})  # fmt: skip
"""Modules whose functions and classes have no external effects, except for those in `IMPURE_NAMES`.

They compute values, or only record their arguments, such as fields, marks and URL paths. Source: the documentation of
the standard library, attrs, msgspec, pydantic, click, Django, pytest, Celery and SQLAlchemy. Modules whose names begin
with `_` contain the implementations of documented modules.
"""
PURE_CALLABLES = frozenset({
    "asyncio.runners.run", "asyncio.tasks.sleep", "asyncio.tasks.gather", "asyncio.tasks.wait_for",
    "logging.Formatter", "logging.Filter", "logging.NullHandler", "logging.StreamHandler",
    "fastapi.param_functions.Depends", "fastapi.param_functions.Query", "fastapi.param_functions.Path",
    "fastapi.param_functions.Header", "fastapi.param_functions.Body", "fastapi.param_functions.Cookie",
    "fastapi.param_functions.Form", "fastapi.param_functions.File", "fastapi.param_functions.Security",
    "starlette.routing.Route", "starlette.routing.Mount", "starlette.middleware.Middleware", "click.core.Option",
    "click.core.Argument", "os.makedirs", "django.db.models.manager.BaseManager.__init__",
    "django.db.models.manager.BaseManager.__new__", "django.db.models.base.Model.__init__",
})  # fmt: skip
"""Functions and classes without external effects, in modules that also have others.

`os.makedirs` has no effect the second time, and creating an instance of a Django model does not access the database.
Source: the documentation of `asyncio`, `logging`, `os`, FastAPI, Starlette, click and Django.
"""
REGISTRY_CLASSES = frozenset({
    "flask.app.Flask", "flask.blueprints.Blueprint", "flask.cli.AppGroup", "fastapi.applications.FastAPI",
    "fastapi.routing.APIRouter", "starlette.applications.Starlette", "starlette.routing.Router", "typer.main.Typer",
    "click.core.Group", "click.core.Command", "argparse.ArgumentParser", "django.template.library.Library",
    "pluggy._manager.PluginManager", "starlette.testclient.TestClient", "flask.testing.FlaskClient",
})  # fmt: skip
"""Classes of objects in which an application registers functions, and of test clients for such objects.

Creating such an object has no external effects.

Source: the documentation of Flask, FastAPI, Starlette, Typer, click, `argparse`, Django and pluggy.
"""
STORING_MODULES = frozenset({
    "argparse", "attr._make", "attr._next_gen", "attr.validators", "celery.canvas", "click.decorators", "dataclasses",
    "django.db.models.fields", "django.db.models.fields.related", "django.forms.fields", "fastapi.param_functions",
    "pydantic.fields", "pydantic.functional_serializers", "pydantic.functional_validators", "pydantic.types",
    "starlette.middleware", "starlette.routing",
})  # fmt: skip
"""Modules whose functions and classes store a function passed to them and do not call it immediately."""
CALLED_ARGUMENTS = frozenset({"generate_unique_id_function"})
"""Arguments of an application or router that it calls when a route is registered. Source: FastAPI's documentation."""
CREATING_ARGUMENTS = frozenset({"field_transformer"})
"""Arguments of a decorator that it calls when it creates a class. Source: the documentation of attrs."""
IMPURE_NAMES = frozenset({
    "uuid1", "uuid4", "uuid6", "uuid7", "now", "today", "utcnow", "pprint", "pp", "register", "update_wrapper",
    "reload", "invalidate_caches",
    "load", "dump", "getnode", "mkdir", "write_text", "write_bytes", "unlink", "touch", "rename", "rmdir", "open",
    "symlink_to", "chmod", "replace_with", "parse_args", "parse_known_args", "print_help", "exit", "error",
    "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right",
})  # fmt: skip
"""Names of impure functions in pure modules.

They read the clock, use random numbers, access files, print, end the process, or change their arguments. Source: the
documentation of those modules.
"""
SORTING_FUNCTIONS = frozenset({
    "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right",
})  # fmt: skip
"""Functions in `heapq` and `bisect` that only change the list in their first argument and compare its elements."""
PURE_BUILTINS = frozenset({
    "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod", "complex",
    "__import__", "dict", "dir", "divmod", "enumerate", "filter", "float", "format", "frozenset", "getattr",
    "hasattr", "hash", "hex", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "mappingproxy",
    "max", "memoryview", "min", "next",
    "object", "oct", "ord", "pow", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted",
    "staticmethod", "str", "sum", "super", "tuple", "type", "vars", "zip", "globals", "locals",
})  # fmt: skip
"""Built-in functions and types that only compute a value. The others print, read, run code or set attributes.

Source: the chapter on built-in functions of the library reference.
"""
IMMUTABLE_BUILTINS = (bool, bytes, complex, float, frozenset, int, range, str, tuple)
"""Built-in types whose methods only compute a value."""
MUTATING_METHODS = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault",
    "sort", "subtract", "symmetric_difference_update", "update",
})  # fmt: skip
"""Methods that change a built-in collection or one from `collections`. Source: the library reference."""
READING_METHODS = frozenset({
    "as_integer_ratio", "as_posix", "as_tuple", "astimezone", "capitalize", "casefold", "center", "copy", "count",
    "decode", "difference", "elements", "encode", "endswith", "expandtabs", "find", "format", "format_map", "fromkeys",
    "get", "groups", "hexdigest", "index", "intersection", "isocalendar", "isoformat", "isoweekday", "quantize",
    "strftime", "timetuple", "toordinal", "weekday", "isalnum", "isalpha", "isdigit", "isdisjoint", "islower",
    "isspace", "issubset", "issuperset", "isupper", "items", "join", "joinpath", "keys", "ljust", "lower", "lstrip",
    "maketrans", "match", "most_common", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex",
    "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title",
    "total_seconds", "translate", "union", "upper", "model_construct", "model_copy", "model_dump", "model_dump_json",
    "model_json_schema", "model_validate", "model_validate_json", "json_schema", "validate_python", "validate_json",
    "dump_python", "as_manager", "as_view", "from_queryset", "test_client", "test_cli_runner", "s", "si", "signature",
    "_asdict", "_make", "_replace", "values", "with_name", "with_suffix", "zfill", "symmetric_difference",
    "__class_getitem__", "__subclasses__", "mro",
})  # fmt: skip
"""Methods that do not change anything, regardless of the object.

They belong to built-in types, paths, pydantic models, Flask's applications, Django's views and managers, and Celery's
tasks.
"""
FILLING_METHODS = MUTATING_METHODS | frozenset({
    "command", "group", "handler", "mount", "on_event", "option", "route", "set_defaults", "subscribe", "use",
    "websocket", "middleware", "exception_handler", "errorhandler", "before_request", "after_request",
    "teardown_request", "teardown_appcontext", "context_processor", "template_filter", "template_global",
    "template_test", "url_value_preprocessor", "get", "post", "put", "patch", "delete", "options", "head",
    "api_route", "websocket_route", "task", "shell_context_processor", "cli", "result_callback", "callback",
    "before_app_request", "after_app_request", "teardown_app_request", "app_context_processor", "app_template_filter",
    "app_template_global", "app_template_test", "app_url_defaults", "app_url_value_preprocessor", "url_defaults",
    "record", "record_once", "app_errorhandler", "endpoint", "default", "setter", "getter", "deleter", "register",
    "dispatch", "filter", "simple_tag", "inclusion_tag", "tag", "field_validator", "validator", "config_from_object",
    "model_rebuild", "update_forward_refs", "from_object", "from_mapping", "from_pyfile", "from_file",
    "from_prefixed_env", "init_app",
})  # fmt: skip
"""Methods that register or add something in the object on which they are called.

Source: the decorators and registering methods in the documentation of Flask, FastAPI, Starlette, click, Celery, Django,
pydantic and argparse.
"""
FILLING_PREFIXES = (
    "add", "set", "register", "include_", "append", "connect_signal", "on_", "use_", "map_", "bind_", "route",
    "attach", "disable", "enable",
)  # fmt: skip
"""Name prefixes of methods that register or add something, for unknown libraries and objects."""
ACTING_PREFIXES = (
    "send",
    "create",
    "start",
    "run",
    "execute",
    "commit",
    "write",
    "notify",
    "publish",
    "emit",
    "post_",
    "delete_",
)
"""Name prefixes of methods that may have external effects, even if other rules say that they only fill an object.

These are verbs that the standard library, database drivers, HTTP clients and queues use for methods that write, send or
start something, such as `cursor.execute`, `session.commit`, `socket.send` and `Thread.start`. A method with unknown
effects is not run again in any case, so a missing verb matters only for names that `FILLING_PREFIXES` also matches.
"""
LIBRARY_DECORATORS = frozenset(
    {"click", "functools", "typing", "contextlib", "abc", "dataclasses", "enum", "flask", "attr", "attrs"}
)
"""Libraries whose decorators only wrap or mark the decorated object."""
SIGNATURE_READING_LIBRARIES = frozenset(
    {"fastapi", "pydantic", "typer", "celery", "litestar", "strawberry", "fast_depends", "dishka", "injector"}
)
"""Libraries that read the signatures of functions and classes passed to them.

Web frameworks and dependency injection libraries derive parameters from them, pydantic derives fields, and Celery
checks the arguments of tasks. Source: the documentation of each library.
"""
SIGNATURE_READING_FUNCTIONS = frozenset({"signature", "getfullargspec", "get_annotations", "get_type_hints"})
"""Functions in `inspect`, `annotationlib` and `typing` that read signatures or annotations."""
CLASS_READING_FUNCTIONS = frozenset({
    "vars", "dir", "list", "tuple", "set", "frozenset", "sorted", "len", "iter", "enumerate", "map", "filter", "max",
    "min", "zip", "dict", "reversed", "getmembers", "get_type_hints", "fields", "signature", "any", "all", "sum",
    "total_ordering",
})  # fmt: skip
"""Functions that read all attributes of a class, or iterate over it."""
CONFIGURATION_READING_METHODS = frozenset({"from_object", "from_mapping"})
"""Methods of Flask's configuration that copy a class's attributes. Celery reads the attributes when they are used."""
REGISTERING_DECORATORS = frozenset(
    {"shared_task", "listens_for", "receiver", "connect", "subscribe", "hookimpl", "register"}
)
"""Decorators that register an object with a library. The library then keeps using the first object registered."""
COLLECTION_TYPES = (list, dict, set, bytearray)


def is_filling_method(name: str) -> bool:
    """Return whether a method with this name registers something in its object or adds something to it."""
    return not name.startswith(ACTING_PREFIXES) and (name in FILLING_METHODS or name.startswith(FILLING_PREFIXES))


def is_pure_callable(value: object) -> bool:
    """Return whether a function or class from a library or the interpreter has no external effects when called."""
    module, name = _origin(value)
    if is_method_of_immutable(value):
        return True
    if module == "builtins":
        return name.rpartition(".")[2] in PURE_BUILTINS or (is_class(value) and issubclass(value, BaseException))  # type: ignore[arg-type]
    if name.rpartition(".")[2] in IMPURE_NAMES:
        return False
    whole = f"{module}.{name}"
    is_constructor = whole in REGISTRY_CLASSES or whole.rpartition(".__init__")[0] in REGISTRY_CLASSES
    return is_constructor or module in PURE_MODULES or whole in PURE_CALLABLES


def is_method_of_immutable(value: object) -> bool:
    """Return whether a value is an unbound method of an immutable built-in type, such as `str.title`."""
    return type(value) is types.MethodDescriptorType and value.__objclass__ in IMMUTABLE_BUILTINS


def is_storing_callable(value: object) -> bool:
    """Return whether a function or class of a library stores the functions passed to it without calling them."""
    module, name = _origin(value)
    return module in STORING_MODULES or f"{module}.{name}" in REGISTRY_CLASSES


def is_registry_class(kind: Any) -> bool:
    """Return whether an application registers functions in instances of this class or of one of its bases."""
    return any(".".join(_origin(base)) in REGISTRY_CLASSES for base in order_of(kind))


def is_sorting_function(value: object) -> bool:
    """Return whether a function in `heapq` or `bisect` adds to or removes from the list in its first argument."""
    module, name = _origin(value)
    return module.lstrip("_") in ("heapq", "bisect") and name in SORTING_FUNCTIONS


def is_wrapping_decorator(value: object) -> bool:
    """Return whether a library's decorator only wraps or marks the decorated object."""
    return _origin(value)[0].partition(".")[0] in LIBRARY_DECORATORS


def is_immutable_kind(kind: Any) -> bool:
    """Return whether a type belongs to the interpreter or a pure module and has no methods that change the object."""
    if kind in COLLECTION_TYPES or kind in (types.FunctionType, types.ModuleType):
        return False
    origin = _origin(kind)
    return (origin[0] == "builtins" and kind not in COLLECTION_TYPES) or (
        origin[0] in PURE_MODULES and origin[0] not in ("collections", "_collections", "argparse", "types")
    )


def is_column_expression(kind: Any) -> bool:
    """Return whether a class is one of SQLAlchemy's column expressions, whose methods only create other expressions."""
    return is_class(kind) and any(_origin(base) == ("sqlalchemy.sql.operators", "Operators") for base in order_of(kind))


def has_reading_get(kind: Any) -> bool:
    """Return whether the method `get` of a type only reads: a standard library mapping, or a context variable."""
    return is_class(kind) and _origin(kind)[0] in ("os", "configparser", "collections", "types", "_contextvars")


def is_collection(kind: Any) -> bool:
    """Return whether a type is a mutable collection."""
    return is_class(kind) and any(base in COLLECTION_TYPES or base.__name__ == "deque" for base in order_of(kind))


def _origin(value: object) -> tuple[str, str]:
    """Return the module and qualified name of a function or class, without running user code."""
    if is_class(value):
        return str(type.__dict__["__module__"].__get__(value)), str(type.__dict__["__qualname__"].__get__(value))
    kind: Any = type(value)
    if kind is types.FunctionType:
        return str(value.__module__), str(value.__qualname__)  # type: ignore[attr-defined]
    if kind in (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType):
        owner = getattr(value, "__objclass__", None)
        module = getattr(value, "__module__", None) or getattr(owner, "__module__", None) or "builtins"
        return str(module), str(getattr(value, "__qualname__", ""))
    return "", ""
