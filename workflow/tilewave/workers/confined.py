"""Confinement of a process to named files and no connections, through Linux' Landlock.
See https://docs.kernel.org/userspace-api/landlock.html for calls and numbers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
SET_NO_NEW_PRIVS = 38
PATH_BENEATH = 1
WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 5, 1 << 7, 1 << 8
READ = READ_FILE | READ_DIR
WRITE = WRITE_FILE | REMOVE_FILE | MAKE_DIR | MAKE_REG
NETWORK_FROM = 4
"""The first version of Landlock that restricts TCP."""

confined = False
"""True once `confine` has succeeded in this process."""


def confine(read: Iterable[Path], write: Iterable[Path]) -> bool:
    """Let this process and its children open only files in these folders, for good. Return whether that
    worked. Without Landlock (other systems, Linux before 5.13) it changes nothing and returns False."""
    global confined
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    wanted = struct.pack("=QQ", READ | WRITE, 3)[: 16 if version >= NETWORK_FROM else 8]
    rules = call(CREATE_RULESET, wanted, len(wanted), 0)
    if rules < 0:
        return False
    try:
        for allowed, paths in ((READ, read), (READ | WRITE, write)):
            for path in dict.fromkeys(paths):
                _allow(call, rules, path, allowed)
        ctypes.CDLL(None).prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        confined = bool(call(RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)
    return confined


def _allow(call: ctypes._NamedFuncPointer, rules: int, path: Path, allowed: int) -> None:
    with contextlib.suppress(OSError):  # a path that does not exist needs no permission
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            kind = allowed if path.is_dir() else allowed & (READ_FILE | WRITE_FILE)
            call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", kind, handle), 0)
        finally:
            os.close(handle)
