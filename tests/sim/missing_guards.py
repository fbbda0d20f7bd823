"""Takes a guard of `tests/guards/` out of the running code, so that a world shows whether it misses it.

The changed source is compiled, and its functions lend their code to the real ones: every module that imported one of
them goes without the guard, until it is put back.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tests.guards.guard import Guard
from tests.guards.guards import GUARDS

ROOT = Path(__file__).parents[2]
BY_NAME = {guard.name: guard for guard in GUARDS}


@contextmanager
def missing(guard: Guard) -> Iterator[None]:
    """Run the block without the guard."""
    source = (ROOT / guard.file).read_text(encoding="utf-8")
    if source.count(guard.text) != 1:
        raise ValueError(f"guard {guard.name}: wanted its text once in {guard.file}")
    module = import_module(guard.file.removesuffix(".py").replace("/", "."))
    changed = types.ModuleType(module.__name__)
    changed.__file__ = module.__file__
    exec(compile(source.replace(guard.text, guard.without), guard.file, "exec"), changed.__dict__)
    other = dict(_functions(changed))
    kept = []
    for name, function in _functions(module):
        if name in other and function.__code__.co_freevars == other[name].__code__.co_freevars:
            kept.append((function, function.__code__))
            function.__code__ = other[name].__code__
    try:
        yield
    finally:
        for function, code in kept:
            function.__code__ = code


def _functions(module: types.ModuleType) -> Iterator[tuple[str, types.FunctionType]]:
    """The functions and methods that a module defines, by their names."""
    for value in list(vars(module).values()):
        members = vars(value).values() if isinstance(value, type) and value.__module__ == module.__name__ else (value,)
        for member in members:
            inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            inner = getattr(inner, "__wrapped__", inner)
            if isinstance(inner, types.FunctionType) and inner.__module__ == module.__name__:
                yield inner.__qualname__, inner
