"""Names of C++ as their author wrote them, of the symbols that compilers make of them."""

import contextlib
import ctypes
import functools
import re

LIBRARIES = ("libstdc++.so.6", "libc++.1.dylib")
"""C++'s runtime has the demangler; pandas and matplotlib bring it into every process here."""
SYMBOL = re.compile(r"\b_Z\w+")


@functools.cache
def _runtime() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.free.argtypes = [ctypes.c_void_p]  # of the C library below it
            return library
    return None


def _demangled(symbol: str) -> str | None:
    """As c++filt says it; None for what is no symbol, and where there is no demangler."""
    library = _runtime()
    demangled = library and library.__cxa_demangle(
        symbol.encode(), None, None, ctypes.byref(ctypes.c_int())
    )
    if not library or not demangled:
        return None
    text = ctypes.string_at(demangled).decode()
    library.free(demangled)
    return text


@functools.cache
def function(symbol: str) -> str:
    """``ns::gemm<64, float>`` of a function's symbol, without result and arguments; what is no such symbol, and
    all symbols where there is no demangler, as it is."""
    demangled = _demangled(symbol)
    if demangled is None:
        return symbol
    depth, start = 0, 0
    text = re.sub(r"\(anonymous namespace\)|_GLOBAL__N_\w+", "{anonymous}", demangled)
    for at, sign in enumerate(text):
        if sign == "(" and depth == 0:
            return text[start:at] or symbol
        if sign == " " and depth == 0:  # behind the type of a template's result
            start = at + 1
        depth += (sign in "<(") - (sign in ">)")
    return text


def plain(text: str) -> str:
    """A text with the functions' names in place of their symbols."""
    return SYMBOL.sub(lambda match: function(match[0]), text)
