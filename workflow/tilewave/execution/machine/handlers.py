"""The function of each family of instructions, compiled on demand.
The interpreter's loop calls them by their addresses. A kernel compiles only the families that it
uses, and a change in one family does not recompile another."""

import ctypes
from collections.abc import Callable, Iterable

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import int64, uint32

from tilewave.execution.machine import codes as c
from tilewave.execution.machine import views as view
from tilewave.execution.machine.accesses import load, matrix, store
from tilewave.execution.machine.atomics import atomic
from tilewave.execution.machine.bulk import bulk
from tilewave.execution.machine.cluster import cluster
from tilewave.execution.machine.compiling import Entry
from tilewave.execution.machine.conversion import convert
from tilewave.execution.machine.copies import copy
from tilewave.execution.machine.dmma import dmma
from tilewave.execution.machine.floating import double, single
from tilewave.execution.machine.halves import half
from tilewave.execution.machine.hgmma import hgmma
from tilewave.execution.machine.imma import imma
from tilewave.execution.machine.integer import integer
from tilewave.execution.machine.mbarrier import mbarrier
from tilewave.execution.machine.registers import pin, results, sources
from tilewave.execution.machine.special import special, special_register
from tilewave.execution.machine.state import State
from tilewave.execution.machine.tensor import hmma
from tilewave.execution.machine.votes import exchange, logic

Handler = Callable[..., None]
SIGNATURE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32


@intrinsic
def call(typingctx, address, m, warp, pc, mask):
    def build(context, builder, signature, arguments):
        address, m, warp, pc, mask = arguments
        word = ir.IntType(64)
        data = context.make_array(signature.args[1])(context, builder, m).data
        kind = ir.FunctionType(ir.VoidType(), [data.type, word, word, ir.IntType(32)])
        function = builder.inttoptr(address, kind.as_pointer())
        builder.call(function, [data, warp, pc, mask])
        return context.get_dummy_value()

    return types.none(types.int64, m, types.int64, types.int64, types.uint32), build


def _handled(function: Handler) -> Handler:
    """Wrap a function that reads its own operands."""

    def handler(table, warp, pc, mask):
        function(view.opened(table), warp, pc, mask)

    return handler


def _computed(function: Handler) -> Handler:
    """Wrap a function of sources and two predicates that gives results and two predicates."""

    def handler(table, warp, pc, mask):
        m = view.opened(table)
        row, T, P = view.code(m)[pc], view.scratch(m), view.predicates(m)[warp]
        sources(m, warp, row)
        p0, p1 = pin(row, int64(c.PIN0), P), pin(row, int64(c.PIN1), P)
        first, second = function(row[c.OP], row[c.SUB], row[c.FLAGS], T, p0, p1)
        results(m, warp, row, mask, uint32(first), uint32(second))

    return handler


def _converted(function: Handler) -> Handler:
    """Wrap a function of sources that gives results."""

    def handler(table, warp, pc, mask):
        m = view.opened(table)
        row = view.code(m)[pc]
        sources(m, warp, row)
        function(row[c.OP], row[c.SUB], row[c.FLAGS], view.scratch(m))
        results(m, warp, row, mask, uint32(0), uint32(0))

    return handler


def _multiplied(function: Handler) -> Handler:
    """Wrap a product of matrices in registers."""

    def handler(table, warp, pc, mask):
        m = view.opened(table)
        row, R = view.code(m)[pc], view.registers(m)[warp]
        at = c.SOURCES + c.INDEX
        first, second, third = row[at], row[at + c.SOURCE_COLUMNS], row[at + 2 * c.SOURCE_COLUMNS]
        function(row[c.SUB], row[c.FLAGS], R, row[c.DST], first, second, third)

    return handler


# Unit and handler of each family.
_HANDLERS: dict[int, tuple[str, Handler]] = {
    c.INTEGER: ("integer", _computed(integer)),
    c.F32: ("f32", _computed(single)),
    c.F64: ("f64", _computed(double)),
    c.F16: ("f16", _computed(half)),
    c.LANES: ("lanes", _computed(exchange)),
    c.CONVERT: ("convert", _converted(convert)),
    c.MUFU: ("mufu", _converted(special)),
    c.HMMA: ("hmma", _multiplied(hmma)),
    c.DMMA: ("dmma", _multiplied(dmma)),
    c.IMMA: ("imma", _multiplied(imma)),
    c.LOGIC: ("logic", _handled(logic)),
    c.SPECIAL: ("special", _handled(special_register)),
    c.LOAD: ("load", _handled(load)),
    c.STORE: ("store", _handled(store)),
    c.ATOMIC: ("atomic", _handled(atomic)),
    c.MATRIX: ("matrix", _handled(matrix)),
    c.COPY: ("copy", _handled(copy)),
    c.HGMMA: ("hgmma", _handled(hgmma)),
    c.MBARRIER: ("mbarrier", _handled(mbarrier)),
    c.BULK: ("bulk", _handled(bulk)),
    c.CLUSTER: ("cluster", _handled(cluster)),
}
COMPILED = {
    family: Entry(unit, handler, SIGNATURE, None) for family, (unit, handler) in _HANDLERS.items()
}


def units(families: Iterable[int]) -> list[str]:
    return [COMPILED[family].unit for family in families if family in COMPILED]


def replaced(state: State, by: Entry, families: Iterable[int], *more: int) -> State:
    """Return a state in which an entry replaces the handlers of some families; they follow, then ``more`` numbers."""
    handlers = state.handlers
    patched = np.concatenate([handlers, handlers, np.array(more, np.int64)])
    if chosen := [family for family in families if handlers[family]]:
        patched[chosen] = by.address
    return state._replace(handlers=patched)


def addresses(families: Iterable[int]) -> np.ndarray:
    """Return addresses of the families' handlers, int64 (number of families,); 0 for the others."""
    entries = np.zeros(c.CONTROL, np.int64)
    for family in families:
        if family in COMPILED:
            entries[family] = COMPILED[family].address
    return entries
