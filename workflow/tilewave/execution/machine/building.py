"""Build units: `python -m tilewave.execution.machine.building UNIT...`, which `compiling` starts.
numba optimises and assembles each function alone, and again with every caller. Here functions are only translated to
LLVM IR. A unit links the functions that its entries reach, then is optimised and assembled once."""
# mypy: disable-error-code="no-untyped-call,attr-defined,method-assign"

import ctypes
import gc
import sys
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, compiler, compiler_machinery, typed_passes, types, untyped_passes
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
    """The subset of numba's passes for code without closures, generators and `with`."""

    def define_pipelines(self) -> list[Any]:
        manager = compiler_machinery.PassManager("tilewave")
        for compiler_pass in PASSES:
            manager.add_pass(compiler_pass, compiler_pass.__name__)
        manager.finalize()
        return [manager]


class Piece(codegen.JITCodeLibrary):
    """A function in LLVM IR, neither optimised nor assembled."""

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


def reached(library: Any, libraries: dict[Any, None]) -> dict[Any, None]:
    """Add a library and all that it calls to ``libraries``, and return them."""
    if library not in libraries:
        libraries[library] = None
        if isinstance(library, Piece):
            for called in library._linking_libraries:
                reached(called, libraries)
    return libraries


def object_code(unit: str, target: Any) -> bytes:
    module = llvm.parse_assembly(str(target._create_empty_module(unit)))
    symbols = {}
    for entry in compiling.ENTRIES[unit]:
        compiled = _CFuncCompiler(
            entry.function, cpu_target, {"error_model": "numpy"}, {}, CompilerPasses
        ).compile([TYPES[argument] for argument in entry.arguments], TYPES[entry.result])
        symbols[compiled.fndesc.llvm_cfunc_wrapper_name] = entry.symbol
        for library in reached(compiled.library, {}):
            is_entry = library is compiled.library
            module.link_in(
                library._final_module if is_entry else library._get_module_for_linking(),
                preserve=True,
            )
    for definition in (*module.functions, *module.global_variables):
        if not definition.is_declaration:
            definition.linkage = "external" if definition.name in symbols else "internal"
    for name, symbol in symbols.items():
        module.get_function(name).name = symbol
    passes, options = target._module_pass_manager(opt=2)  # 3 takes longer, the code is not faster
    passes.run(module, options)
    strays = [
        variable.name for variable in module.global_variables if "numba.dynamic" in variable.name
    ]
    if strays:  # they hold addresses of this process
        raise RuntimeError(f"{unit} holds objects of Python: {strays}")
    return bytes(target._tm.emit_object(module))


def _resolved_once() -> None:
    """Cache which overload of an operator fits which types: numba tries all of them each time."""
    resolve = types.BaseFunction.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return resolve(self, context, args, kws)
        results = self.__dict__.setdefault("resolved", {})
        if args not in results:
            results[args] = resolve(self, context, args, kws)
        return results[args]

    types.BaseFunction.get_call_type = get_call_type


def imported() -> None:
    """Import the modules of all units, after numba is configured."""
    from tilewave.execution.machine import (  # noqa: F401
        blocks,
        capturing,
        cycles,
        events,
        handlers,
        marking,
        overwriting,
        tracing,
    )


def main(units: list[str]) -> None:
    jit.options = {
        "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": CompilerPasses,
        "_nrt": False,
    }  # fmt: skip
    _resolved_once()
    gc.disable()  # all objects live until the end
    imported()
    target = cpu_target.target_context.codegen()
    target._library_class = Piece
    target.set_env = lambda *_: None  # the environment of Python's globals is unused
    for unit in units:
        compiling.keep(unit, object_code(unit, target))


if __name__ == "__main__":
    from tilewave.basics.lifetime import die_with_parent

    die_with_parent(started_by_thread=True)
    main(sys.argv[1:])
