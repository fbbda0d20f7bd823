"""This process's fsspec file systems: one for each set of settings, on fsspec's event loop.

A forked process makes its own, because sockets and event loops can't be shared.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import fsspec.asyn

from sparklog.host.fork import after_fork_in_child

# Environment variables where gcsfs, adlfs and the libraries below them look for accounts, credentials and addresses.
_VARIABLES: Final = ("GOOGLE_", "STORAGE_EMULATOR_HOST", "AZURE_", "IDENTITY_", "MSI_")

_Surroundings = tuple[object, tuple[tuple[str, str], ...]]
_files: dict[_Surroundings, Any] = {}
_lock = threading.Lock()
_of_parents: list[dict[_Surroundings, Any]] = []  # neither used nor closed in a forked process


def files_of(settings: object, make: Callable[[], Any]) -> Any:
    """Return this process's file system for `settings` and the current environment variables.

    The first call for them gets it from `make`.
    """
    here = tuple(sorted(variable for variable in os.environ.items() if variable[0].startswith(_VARIABLES)))
    with _lock:
        files = _files.get((settings, here))
        if files is None:
            files = _files[settings, here] = make()
        return files


def forget_files() -> None:
    """Drop this process's file systems. A store first used later gets a new one; a store in use keeps its own."""
    with _lock:
        _files.clear()


def _reset_after_fork() -> None:
    global _files, _lock
    _of_parents.append(_files)
    loops = {id(files.__dict__.get("_loop")) for files in _files.values()}
    _files, _lock = {}, threading.Lock()
    # At process exit, gcsfs and adlfs close their connections on the loop that made them. A parent's loop does not
    # run here, so a forked process would wait for it forever at exit. There is no public list of these finalizers.
    for finalizer, closing in list(vars(weakref.finalize)["_registry"].items()):
        if any(id(given) in loops for given in closing.args or ()):
            finalizer.detach()


after_fork_in_child(_reset_after_fork)


def run(files: Any, function: Callable[..., Any], timeout_s: float, *given: Any, **named: Any) -> Any:
    """Run a coroutine function on the event loop of the file system `files`. Raises TimeoutError after `timeout_s`."""
    return fsspec.asyn.sync(files.loop, function, *given, timeout=max(0.001, timeout_s), **named)
