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


@functools.cache
def function(symbol: str) -> str:
    """Return ``ns::gemm<64, float>`` for a function's symbol; anything else, or without a demangler, as it is."""
    library, state = _runtime(), ctypes.byref(ctypes.c_int())
    address = library and library.__cxa_demangle(symbol.encode(), None, None, state)
    if not library or not address:
        return symbol
    demangled = ctypes.string_at(address).decode()
    library.free(address)
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
