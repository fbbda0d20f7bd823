"""Translates the errnos of the file system to sparklog's errors."""

from __future__ import annotations

import errno

from sparklog.core.errors import (
    MAKE_ROOM,
    InvalidInput,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

ABSENT = (FileNotFoundError, NotADirectoryError)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM}
_READ_ONLY = {errno.EROFS} | _DENIED
_BAD_PATH = {errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
_NO_LINKS = {errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}
# After these errnos, `link` has certainly not created the name. Others (EIO, ESTALE, ETIMEDOUT, …) leave that open.
LINK_REFUSED = _FULL | _READ_ONLY | _BAD_PATH | _NO_LINKS | {errno.ENOENT, errno.ENOMEM}


def reason(error: OSError) -> str:
    """Describe `error` in one line, with the name of its errno."""
    name = errno.errorcode.get(error.errno or 0, "no errno")
    return f"{error.strerror or error} ({name})"


def read_error(wanted: str, error: OSError) -> SparklogError:
    """Return the error to raise if the read `wanted`, such as "read /a/b", failed. The object may exist."""
    message = f"wanted to {wanted}, found: {reason(error)}"
    if error.errno in _BAD_PATH:
        return InvalidInput(f"{message}; a store is a directory whose path is no longer than the file system allows")
    if error.errno in _DENIED:
        return StoreAccessDenied(f"{message}; the user of this process may not read there")
    return StoreUnavailable(message)


def write_error(wanted: str, error: OSError) -> SparklogError:
    """Return the error to raise if the change `wanted`, such as "delete /a/b", failed.

    All these errors mean that nothing was written. A put whose outcome is unknown needs OutcomeUnknown instead. A
    delete may have been done: it is safe to repeat.
    """
    message = f"wanted to {wanted}, found: {reason(error)}"
    if error.errno in _FULL:
        return StoreFull(f"{message}; {MAKE_ROOM}")
    if error.errno in _READ_ONLY:
        return StoreReadOnly(message)
    if error.errno in _BAD_PATH or error.errno == errno.EEXIST:
        return InvalidInput(f"{message}; a key may not continue another key, nor be longer than the file system allows")
    return StoreUnavailable(message)
