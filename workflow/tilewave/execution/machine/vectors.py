"""Arithmetic on sixteen numbers at once, emitted with LLVM's vector types.
LLVM can find such vectors in loops, but only if it has unrolled enough. A matrix instruction without
them takes ten times as long. A CPU with shorter vectors uses several of them."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, load_library_permanently
from numba.core import cgutils

if platform.machine() in ("x86_64", "AMD64") and not get_host_cpu_features().get("f16c"):
    # Without F16C LLVM needs libgcc's functions to convert halves.
    with contextlib.suppress(RuntimeError):
        load_library_permanently("libgcc_s.so.1")

WIDTH = 16
I16, I32, I64 = (ir.IntType(bits) for bits in (16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
BYTES = {I32: 4, I64: 8, FLOAT: 4, DOUBLE: 8}


def _operator(whole: str, real: str = "") -> Callable[[Vector, Vector | int | float], Vector]:
    """Return an operator that emits one instruction for whole numbers, another one for floats."""

    def emit(self: Vector, other: Vector | int | float) -> Vector:
        name = real if self.element in (FLOAT, DOUBLE) else whole
        return self._with(getattr(self.builder, name)(self.value, self._other(other)))

    return emit


class Vector:
    """A value of a vector type; operators emit instructions."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder, self.value = builder, value

    @property
    def element(self) -> ir.Type:
        return self.value.type.element

    def _other(self, other: Vector | int | float) -> ir.Value:
        if isinstance(other, Vector):
            return other.value
        return ir.Constant(self.value.type, [other] * self.value.type.count)

    def _with(self, value: ir.Value) -> Vector:
        return Vector(self.builder, value)

    __add__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __mul__ = _operator("mul", "fmul")
    __and__, __or__, __xor__ = _operator("and_"), _operator("or_"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("lshr")  # zeros come in

    def compare(self, how: str, other: Vector | int | float) -> Vector:
        """Compare to a vector of single bits; integers are signed."""
        real = self.element in (FLOAT, DOUBLE)
        name = "fcmp_ordered" if real else "icmp_signed"
        return self._with(getattr(self.builder, name)(how, self.value, self._other(other)))

    def above(self, limit: Vector | int) -> Vector:
        """Compare unsigned integers, to a vector of single bits."""
        return self._with(self.builder.icmp_unsigned(">", self.value, self._other(limit)))

    def select(self, true: Vector | int, false: Vector) -> Vector:
        """Select from two vectors by these bits."""
        return self._with(self.builder.select(self.value, false._other(true), false.value))

    def at_least(self, other: Vector | int) -> Vector:
        return self.compare("<", other).select(other, self)

    def absolute(self) -> Vector:
        """Return floats or doubles without their signs."""
        integer = I32 if self.element == FLOAT else I64
        sign = 1 << (8 * BYTES[integer] - 1)
        return (self.bits_as(integer) & (sign - 1)).bits_as(self.element)

    def as_mask(self) -> Vector:
        """Convert single bits to int32: 0 or -1."""
        return self.cast("sext", I32)

    def _intrinsic(self, name: str, element: str, *operands: Vector) -> Vector:
        """Call LLVM's intrinsic of that name; llvmlite declares only those of scalars."""
        kind = self.value.type
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(kind, [kind] * (1 + len(operands))),
            f"llvm.{name}.v{kind.count}{element}",
        )
        return self._with(
            self.builder.call(function, [self.value, *(operand.value for operand in operands)])
        )

    def ones(self) -> Vector:
        """Count the bits that are set."""
        return self._intrinsic("ctpop", "i32")

    def fused(self, factor: Vector, addend: Vector) -> Vector:
        """Return self * factor + addend with one rounding."""
        return self._intrinsic("fma", "f32" if self.element == FLOAT else "f64", factor, addend)

    def pairs_as(self, element: ir.Type) -> Vector:
        """Join pairs of elements to elements of twice the size, the first in the low half."""
        kind = ir.VectorType(element, self.value.type.count // 2)
        return self._with(self.builder.bitcast(self.value, kind))

    def any(self) -> ir.Value:
        """Return whether any bit of a vector of single bits is set."""
        word = self.builder.bitcast(self.value, ir.IntType(self.value.type.count))
        return self.builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    def cast(self, how: str, element: ir.Type) -> Vector:
        kind = ir.VectorType(element, self.value.type.count)
        return self._with(getattr(self.builder, how)(self.value, kind))

    def bits_as(self, element: ir.Type) -> Vector:
        return self.cast("bitcast", element)

    def truncated(self) -> Vector:
        """Convert floats to int32, towards zero."""
        return self.cast("fptosi", I32)

    def as_double(self) -> Vector:
        return self.cast("sitofp" if self.element == I32 else "fpext", DOUBLE)

    def as_float(self) -> Vector:
        """Convert doubles or int32 to the nearest floats."""
        return self.cast("fptrunc" if self.element == DOUBLE else "sitofp", FLOAT)

    def as_int64(self) -> Vector:
        return self.cast("sext", I64)

    def widened(self) -> Vector:
        """Convert f16 patterns in the low halves of int32 to floats."""
        return self.cast("trunc", I16).cast("bitcast", HALF).cast("fpext", FLOAT)

    def narrowed(self) -> Vector:
        """Round floats to the nearest f16, as patterns in int32."""
        return self.cast("fptrunc", HALF).cast("bitcast", I16).cast("zext", I32)

    def shuffled(self, places: Sequence[int], second: Vector | None = None) -> Vector:
        """Return the elements at these places; a second vector's follow the first's."""
        other = self.value if second is None else second.value
        chosen = ir.Constant(ir.VectorType(I32, len(places)), list(places))
        return self._with(self.builder.shuffle_vector(self.value, other, chosen))


class Memory:
    """Contiguous numbers in memory."""

    def __init__(self, builder: ir.IRBuilder, pointer: ir.Value, align: int = 0) -> None:
        self.builder, self.pointer = builder, pointer
        self.element = pointer.type.pointee
        self.align = align or BYTES[self.element]

    def _at(self, at: ir.Value | int) -> ir.Value:
        index = ir.Constant(I64, at) if isinstance(at, int) else at
        return self.builder.gep(self.pointer, [index])

    def load(self, at: ir.Value | int, count: int = WIDTH) -> Vector:
        kind = ir.VectorType(self.element, count).as_pointer()
        place = self.builder.bitcast(self._at(at), kind)
        return Vector(self.builder, self.builder.load(place, align=self.align))

    def store(self, at: ir.Value | int, vector: Vector) -> None:
        place = self.builder.bitcast(self._at(at), vector.value.type.as_pointer())
        self.builder.store(vector.value, place, align=self.align)

    def everywhere(self, at: ir.Value | int, count: int = WIDTH) -> Vector:
        """Load one element and return a vector of it."""
        return splat(self.builder, self.builder.load(self._at(at)), count)


def splat(builder: ir.IRBuilder, value: ir.Value, count: int = WIDTH) -> Vector:
    """Return a vector of one value."""
    empty = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    vector = Vector(builder, builder.insert_element(empty, value, ir.Constant(I32, 0)))
    return vector.shuffled([0] * count)


def loop(builder: ir.IRBuilder, count: int, body: Callable[[ir.Value], Any]) -> None:
    """Emit a loop; `body` gets the int64 index."""
    with cgutils.for_range(builder, ir.Constant(I64, count)) as state:
        body(state.index)


def switched(
    builder: ir.IRBuilder, number: ir.Value, actions: Mapping[int, Callable[[], Sequence[ir.Value]]]
) -> list[ir.Value]:
    """Emit a switch over a number, for which there is an action; return the values that this one gives."""
    end, unknown = builder.append_basic_block("end"), builder.append_basic_block("other")
    switch, results = builder.switch(number, unknown), []
    for case, action in actions.items():
        block = builder.append_basic_block(f"case{case}")
        switch.add_case(ir.Constant(number.type, case), block)
        builder.position_at_end(block)
        results.append((action(), builder.block))
        builder.branch(end)
    builder.position_at_end(unknown)
    builder.unreachable()
    builder.position_at_end(end)
    chosen = [builder.phi(value.type) for value in results[0][0]]
    for values, block in results:
        for phi, value in zip(chosen, values, strict=True):
            phi.add_incoming(value, block)
    return chosen


def either(
    builder: ir.IRBuilder,
    condition: ir.Value,
    first: Callable[[], Vector],
    second: Callable[[], Vector],
) -> Vector:
    """Emit two branches and return the value of the one that ran."""
    actions = {1: lambda: [first().value], 0: lambda: [second().value]}
    return Vector(builder, *switched(builder, condition, actions))
