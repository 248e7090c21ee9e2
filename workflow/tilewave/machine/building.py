"""Makes units: `python -m tilewave.machine.building UNIT...`, started by `tilewave.machine.compiling`.

numba optimises and assembles each function by itself, and again with every function that calls it.
Here functions are only translated to LLVM's language; a unit is put together from those that its
entries reach, then optimised and assembled, once.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, compiler, types
from numba.core.ccallback import _CFuncCompiler
from numba.core.registry import cpu_target

from tilewave.machine import compiling

TYPES = {
    None: types.void,
    ctypes.c_void_p: types.CPointer(types.int64),
    ctypes.c_int64: types.int64,
    ctypes.c_uint32: types.uint32,
}


class Pipeline(compiler.CompilerBase):
    """numba's passes."""

    def define_pipelines(self) -> list[Any]:
        return [compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)]


class Piece(codegen.JITCodeLibrary):
    """A function in LLVM's language, neither optimised nor assembled."""

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


def reached(library: Any, found: dict[Any, None]) -> dict[Any, None]:
    """A library and all that it calls."""
    if library not in found:
        found[library] = None
        if isinstance(library, Piece):
            for other in library._linking_libraries:
                reached(other, found)
    return found


def object_code(unit: str, target: Any) -> bytes:
    """A unit as an object file."""
    module = llvm.parse_assembly(str(target._create_empty_module(unit)))
    symbols = {}
    for entry in compiling.ENTRIES[unit]:
        made = _CFuncCompiler(
            entry.function, cpu_target, {"error_model": "numpy"}, {}, Pipeline
        ).compile([TYPES[one] for one in entry.arguments], TYPES[entry.result])
        symbols[made.fndesc.llvm_cfunc_wrapper_name] = entry.symbol
        for library in reached(made.library, {}):
            own = library is made.library
            module.link_in(
                library._final_module if own else library._get_module_for_linking(), preserve=True
            )
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration:
            one.linkage = "external" if one.name in symbols else "internal"
    for name, symbol in symbols.items():
        module.get_function(name).name = symbol
    passes, options = target._module_pass_manager()
    passes.run(module, options)
    return bytes(target._tm.emit_object(module))


def main(units: list[str]) -> None:
    compiling.options = {
        "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": Pipeline
    }  # fmt: skip
    gc.disable()  # what is made here lives until the end
    from tilewave.machine import blocks, handlers, tracing  # noqa: F401

    target = cpu_target.target_context.codegen()
    target._library_class = Piece
    target.set_env = lambda *_: None  # of Python's globals, which nothing here uses
    for unit in units:
        compiling.keep(unit, object_code(unit, target))


if __name__ == "__main__":
    main(sys.argv[1:])
