"""Detect repeatable side effects of imports, and repeat them in a test run.

An effect is a pair of a kind and a value. `repeat_effect` defines the kinds.
"""

from __future__ import annotations

import os
import sys

from .process_state import loaded_module
from .registries import add_entries, remove_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Effect = tuple[str, Any]


MISSING_VALUE = object()
"""Represents the value of a missing attribute."""


def current_effects() -> dict[tuple[str, Any], Effect]:
    """Return current state that imports may add to and that can be restored later, such as loggers.

    The keys are the same on each call, so the differences between two calls are the effects of an import.
    """
    found: dict[tuple[str, Any], Effect] = {}
    last = len(sys.meta_path) - 1
    for index, finder in enumerate(sys.meta_path):
        found["finder", id(finder)] = "finder", (finder, index < last and index == 0)
    for name, value in os.environ._data.items():
        found["variable", (name, value)] = "variable", (name, value)
    if logging := loaded_module("logging"):
        for name, logger in logging.root.manager.loggerDict.items():
            if hasattr(logger, "parent"):  # placeholders are created with their loggers
                found["logger", name] = "logger", (name, logger)
        for level, name in getattr(logging, "_levelToName", {}).items():
            found["level", level] = "level", (level, name)
    if copyreg := loaded_module("copyreg"):
        for type_, reduce in copyreg.dispatch_table.items():
            found["pickling", type_] = "pickling", (type_, reduce)
    return found | exit_effects()


LOGGER_ATTRIBUTES = ("level", "propagate", "disabled")
"""Attributes of a logger that an import may set."""
LOGGER_LISTS = ("handlers", "filters")
"""Lists of a logger that an import may change."""


def logger_states() -> dict[Any, tuple[Any, ...]]:
    """Return the values of `LOGGER_ATTRIBUTES` and the contents of `LOGGER_LISTS` for each logger."""
    logging = loaded_module("logging")
    loggers = list(logging.root.manager.loggerDict.values()) if logging else []
    return {
        logger: (logger.level, logger.propagate, logger.disabled, tuple(logger.handlers), tuple(logger.filters))
        for logger in loggers
        if type(logger) is logging.Logger
    }


def logger_effects(previous: dict[Any, tuple[Any, ...]], present: dict[Any, tuple[Any, ...]]) -> list[Effect]:
    """Return the changes between two states of all loggers. Only loggers in `previous` are compared."""
    return [
        ("logger state", (logger, name, old, new))
        for logger, state in previous.items()
        if present.get(logger, state) != state
        for name, old, new in zip((*LOGGER_ATTRIBUTES, *LOGGER_LISTS), state, present[logger], strict=True)
        if new != old
    ]


def set_logger_state(logger: Any, name: str, old: Any, new: Any) -> None:
    """Set an attribute of a logger to `new`. For a list of handlers or filters, replace only the entries in `old`."""
    if name in LOGGER_ATTRIBUTES:
        setattr(logger, name, new)
        logger.manager._clear_cache()
    else:
        entries = getattr(logger, name)
        entries[:] = [entry for entry in entries if entry in new or entry not in old]
        entries += [entry for entry in new if entry not in entries]


def exit_effects() -> dict[tuple[str, Any], Effect]:
    """Return the callbacks that run when the process exits, except those registered with `atexit`."""
    found: dict[tuple[str, Any], Effect] = {}
    if finalize := getattr(loaded_module("weakref"), "finalize", None):
        for finalizer, info in finalize._registry.items():
            found["finalizer", id(finalizer)] = "finalizer", (finalize, finalizer, info)
    if threading := loaded_module("threading"):
        for callback in getattr(threading, "_threading_atexits", ()):
            found["thread exit", id(callback)] = "thread exit", callback
    return found


def warning_filters(always: object) -> dict[tuple[str, Any], Effect]:
    """Return the warning filters other than `always`, oldest first, and for each whether it precedes `always`."""
    if always is None:
        return {}
    every = list(sys.modules["warnings"].filters)
    index = every.index(always) if always in every else len(every)
    pairs = [*((entry, True) for entry in reversed(every[:index])), *((entry, False) for entry in every[index + 1 :])]
    return {("filter", (repr(entry), precedes)): ("filter", (entry, precedes)) for entry, precedes in pairs}


def withdraw_effect(kind: str, value: Any) -> None:
    """Undo an effect of an import, as if the module had never been imported."""
    if kind == "finder":
        if value[0] in sys.meta_path:
            sys.meta_path.remove(value[0])
    elif kind == "logger":
        sys.modules["logging"].root.manager.loggerDict.pop(value[0], None)
    elif kind == "level":
        logging = sys.modules["logging"]
        logging._levelToName.pop(value[0], None)
        logging._nameToLevel.pop(value[1], None)
    elif kind == "pickling":
        sys.modules["copyreg"].dispatch_table.pop(value[0], None)
    elif kind == "thread exit":
        callbacks = sys.modules["threading"]._threading_atexits
        callbacks[:] = [callback for callback in callbacks if callback is not value]
    elif kind == "finalizer":
        finalize, finalizer, _ = value
        finalize._registry.pop(finalizer, None)
        finalize._registered_with_atexit = False
    elif kind == "entries":
        remove_entries(*value[2:])
    elif kind == "logger state":
        logger, name, old, new = value
        set_logger_state(logger, name, new, old)
    elif kind == "attribute":
        owner, path, old, _ = value
        set_attribute(owner, path, old)


def set_attribute(owner: Any, path: str, value: Any) -> None:
    """Set an attribute of a module, or of a class in the module. Delete it if the value is `MISSING_VALUE`."""
    class_, _, name = path.rpartition(".")
    holder = getattr(owner, class_) if class_ else owner
    if value is MISSING_VALUE:
        delattr(holder, name)
    else:
        setattr(holder, name, value)


def repeat_effect(kind: str, value: Any, modules: dict[str, Any]) -> None:
    """Repeat an effect of an import in the process that is now importing the module."""
    if kind == "finder":
        finder, is_first = value
        sys.meta_path.insert(0 if is_first else len(sys.meta_path), finder)
    elif kind == "filter":
        add_filter(*value, warnings=modules["warnings"])
    elif kind == "warning":
        repeat_warning(value, modules)
    elif kind == "variable":
        os.environ[os.fsdecode(value[0])] = os.fsdecode(value[1])
    elif kind in ("stdout", "stderr"):
        getattr(sys, kind).write(value)
    elif kind == "logger":
        add_logger(*value, manager=modules["logging"].root.manager)
    elif kind == "level":
        modules["logging"].addLevelName(*value)
    elif kind == "pickling":
        modules["copyreg"].dispatch_table[value[0]] = value[1]
    elif kind == "thread exit":
        modules["threading"]._threading_atexits.append(value)
    else:
        repeat_plain_effect(kind, value)


def repeat_plain_effect(kind: str, value: Any) -> None:
    """Repeat an effect that does not depend on other modules."""
    if kind == "entries":
        add_entries(*value[2:])
    elif kind == "logger state":
        set_logger_state(*value)
    elif kind == "attribute":
        owner, path, _, new = value
        set_attribute(owner, path, new)
    elif kind == "process id":
        module, names = value
        vars(module).update(dict.fromkeys(names, os.getpid()))
    elif kind == "finalizer":
        finalize, finalizer, info = value
        if not finalize._registered_with_atexit:
            sys.modules["atexit"].register(finalize._exitfunc)
            finalize._registered_with_atexit = True
        finalize._registry[finalizer] = info
        finalize._dirty = True
    elif kind == "call":  # atexit.register, codecs.register
        function, arguments, keywords = value
        if getattr(arguments[0], "__qualname__", "") != "finalize._exitfunc":  # included in the finalizers
            function(*arguments, **keywords)


def add_filter(entry: Any, precedes: bool, *, warnings: Any) -> None:  # noqa: FBT001 - as it is recorded
    """Add a warning filter to the front of the list, or to its end unless it `precedes` the others."""
    filters_, implementation = warnings.filters, sys.modules["_warnings"]
    if precedes:
        filters_[:] = [entry, *(installed for installed in filters_ if installed != entry)]
    elif entry not in filters_:
        filters_.append(entry)
    if mutated := getattr(implementation, "_filters_mutated", None):
        mutated()
    else:  # since 3.14
        implementation._acquire_lock()
        try:
            implementation._filters_mutated_lock_held()
        finally:
            implementation._release_lock()


def repeat_warning(value: tuple[Warning, type[Warning], str, int, str], modules: dict[str, Any]) -> None:
    """Issue a warning again on behalf of the module that issued it during its import."""
    message, category, filename, line, name = value
    registry = vars(modules[name]).setdefault("__warningregistry__", {}) if name in modules else {}
    modules["warnings"].warn_explicit(message, category, filename, line, module=name, registry=registry)


def warning_action(value: tuple[Warning, type[Warning], str, int, str], warnings: Any) -> str:
    """Return the action that the current filters specify for a recorded warning, such as `error` or `ignore`."""
    message, category, _, line, name = value
    for action, text, kind, module, lineno in warnings.filters:
        if (
            (text is None or (text == str(message) if isinstance(text, str) else text.match(str(message))))
            and issubclass(category, kind)
            and (module is None or (module == name if isinstance(module, str) else module.match(name)))
            and lineno in (0, line)
        ):
            return str(action)
    return "default"


def add_logger(name: str, logger: Any, *, manager: Any) -> None:
    """Add a logger that an import created, and link it to its parents and children."""
    placeholder = manager.loggerDict.get(name)
    manager.loggerDict[name] = logger
    logger._cache.clear()
    if placeholder is not None:
        manager._fixupChildren(placeholder, logger)
    manager._fixupParents(logger)


class RecordedFunction:
    """A function whose calls during imports are recorded instead of executed.

    Like a built-in function, it is not bound when it is an attribute of a class.
    """

    def __init__(self, function: Callable[..., Any], record: Callable[[Effect], bool]) -> None:
        self.function = function
        self.record = record

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Record the call, or make it if no module is being imported."""
        if self.record(("call", (self.function, arguments, keywords))):
            return arguments[0] if arguments else None
        return self.function(*arguments, **keywords)
