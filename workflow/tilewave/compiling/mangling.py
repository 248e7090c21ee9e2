"""Demangling: C++ names from the symbols of compilers."""

import contextlib
import ctypes
import functools
import re

LIBRARIES = ("libstdc++.so.6", "libc++.1.dylib")
"""The C++ runtime has the demangler; pandas and matplotlib load it in every process here."""
SYMBOL = re.compile(r"\b_Z\w+")


@functools.cache
def _runtime() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.free.argtypes = [ctypes.c_void_p]  # from the C library that it links
            return library
    return None


def _demangled(symbol: str) -> str | None:
    """Return the name as c++filt prints it; None for no symbol, or without a demangler."""
    library = _runtime()
    state = ctypes.byref(ctypes.c_int())
    demangled = library and library.__cxa_demangle(symbol.encode(), None, None, state)
    if not library or not demangled:
        return None
    text = ctypes.string_at(demangled).decode()
    library.free(demangled)
    return text


@functools.cache
def function(symbol: str) -> str:
    """Return ``ns::gemm<64, float>`` for a function's symbol; anything else, or without a demangler, as it is."""
    demangled = _demangled(symbol)
    if demangled is None:
        return symbol
    depth, start = 0, 0
    text = re.sub(r"\(anonymous namespace\)|_GLOBAL__N_\w+", "{anonymous}", demangled)
    for at, sign in enumerate(text):
        if sign == "(" and depth == 0:
            return text[start:at] or symbol
        if sign == " " and depth == 0:  # after the result type of a template
            start = at + 1
        depth += (sign in "<(") - (sign in ">)")
    return text


def plain(text: str) -> str:
    """Replace symbols of functions in a text by their names."""
    return SYMBOL.sub(lambda match: function(match[0]), text)
