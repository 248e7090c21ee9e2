"""Makes units: `python -m tilewave.execution.machine.building UNIT...`, started by `tilewave.execution.machine.compiling`.

numba optimises and assembles each function by itself, and again with every function that calls it.
Here functions are only translated to LLVM's language; a unit is put together from those that its
entries reach, then optimised and assembled, once.
"""
# mypy: disable-error-code="no-untyped-call,attr-defined,method-assign"

import ctypes
import gc
import sys
from typing import Any

import llvmlite.binding as llvm
from numba.core import (
    codegen,
    compiler,
    compiler_machinery,
    typed_passes,
    types,
    untyped_passes,
)
from numba.core.ccallback import _CFuncCompiler
from numba.core.registry import cpu_target

from tilewave.basics import jit
from tilewave.execution.machine import compiling

TYPES = {
    None: types.void,
    ctypes.c_void_p: types.int64,
    ctypes.c_int64: types.int64,
    ctypes.c_uint32: types.uint32,
}


PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.InlineInlinables,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class CompilerPasses(compiler.CompilerBase):
    """Those of numba's passes that code without closures, generators and `with` needs."""

    def define_pipelines(self) -> list[Any]:
        made = compiler_machinery.PassManager("tilewave")
        for one in PASSES:
            made.add_pass(one, one.__name__)
        made.finalize()
        return [made]


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
            entry.function, cpu_target, {"error_model": "numpy"}, {}, CompilerPasses
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
    passes, options = target._module_pass_manager(opt=2)  # 3 takes longer and gives no faster code
    passes.run(module, options)
    strays = [one.name for one in module.global_variables if "numba.dynamic" in one.name]
    if strays:  # addresses of this process
        raise RuntimeError(f"{unit} holds objects of Python: {strays}")
    return bytes(target._tm.emit_object(module))


def _resolved_once() -> None:
    """numba tries the overloads of an operator one by one, each time anew: here once for each types."""
    resolve = types.BaseFunction.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return resolve(self, context, args, kws)
        found = self.__dict__.setdefault("found", {})
        if args not in found:
            found[args] = resolve(self, context, args, kws)
        return found[args]

    types.BaseFunction.get_call_type = get_call_type


def imported() -> None:
    """Import the modules of all units, once numba is as it is to be here."""
    from tilewave.execution.machine import blocks, capturing, handlers, marking, tracing  # noqa: F401


def main(units: list[str]) -> None:
    jit.options = {
        "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": CompilerPasses,
        "_nrt": False,
    }  # fmt: skip
    _resolved_once()
    gc.disable()  # what is made here lives until the end
    imported()
    target = cpu_target.target_context.codegen()
    target._library_class = Piece
    target.set_env = lambda *_: None  # of Python's globals, which nothing here uses
    for unit in units:
        compiling.keep(unit, object_code(unit, target))


if __name__ == "__main__":
    from tilewave.basics.lifetime import die_with_parent

    die_with_parent(started_by_thread=True)
    main(sys.argv[1:])
