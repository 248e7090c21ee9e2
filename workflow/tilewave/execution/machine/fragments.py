"""The matrices of the tensor cores in a warp's registers.
Code that reads and writes registers here is emitted as vectors, see `vectors`. Lane 4 g + t holds
row g of A, C and D, and column g of B."""

import functools
import inspect

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tilewave.execution.machine.vectors import I32, I64, Memory, switched

ROWS = 16
ALIGN = 64


@intrinsic
def local_words(typingctx, count):
    """Allocate uint32 words on the stack."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    size = count.literal_value

    def build(context, builder, signature, arguments):
        memory = cgutils.alloca_once(builder, I32, size=ir.Constant(I64, size))
        memory.align = ALIGN
        return memory

    return types.CPointer(types.uint32)(count), build


def part(builder, scratch, first, element=I32):
    """Return the scratch from a word on."""
    pointer = builder.gep(scratch, [ir.Constant(I64, first)])
    return Memory(builder, builder.bitcast(pointer, element.as_pointer()), ALIGN)


class Registers:
    """The registers of a warp."""

    def __init__(self, context, builder, kind, value) -> None:
        self.builder = builder
        self.memory = Memory(builder, context.make_array(kind)(context, builder, value).data)

    def _offset(self, first, number, half):
        word = ir.Constant(I64, 32 * number + 16 * half)
        return self.builder.add(self.builder.mul(first, ir.Constant(I64, 32)), word)

    def load(self, first, number):
        """Load all lanes of the register ``number`` after ``first``."""
        return self.memory.load(self._offset(first, number, 0), 32)

    def load_half(self, first, number, half):
        return self.memory.load(self._offset(first, number, half))

    def store(self, first, number, vector):
        self.memory.store(self._offset(first, number, 0), vector)


def columns(low, high):
    """Return four vectors: the t-th lanes of the eight quads of one register, then of another."""
    return [low.shuffled([4 * g + t for g in range(ROWS)], high) for t in range(4)]


def lanes(vectors, half):
    """Return one register from eight rows of four columns: the inverse of `columns`."""
    pairs = [x for g in range(8) for x in (8 * half + g, 16 + 8 * half + g)]
    even, odd = (vectors[t].shuffled(pairs, vectors[t + 1]) for t in (0, 2))
    return even.shuffled(
        [x for g in range(8) for x in (2 * g, 2 * g + 1, 16 + 2 * g, 17 + 2 * g)], odd
    )


def emitted(*cases, result=types.none):
    """Decorate a function that emits instructions for each of these cases, the values of its first arguments.
    A literal argument chooses among them when it is compiled, another one by a switch when it runs. The function gets
    the builder, the values of a case, and the other arguments, with `Registers` for an array."""
    count = len(cases[0]) if cases else 0

    def decorated(body):
        def typed(typingctx, *kinds):
            literal = [getattr(kind, "literal_value", None) for kind in kinds[:count]]
            possible = [
                case
                for case in cases or ((),)
                if all(value in (None, wanted) for value, wanted in zip(literal, case))
            ]

            def build(context, builder, signature, arguments):
                operands = [
                    Registers(context, builder, kind, value)
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(kinds[count:], arguments[count:])
                ]
                number = I64(0)
                for value in arguments[:count]:
                    wide = value if value.type == I64 else builder.zext(value, I64)
                    number = builder.or_(builder.shl(number, I64(8)), wide)

                def emit(case):
                    value = body(builder, *case, *operands)
                    return [] if value is None else [value]

                actions = {int.from_bytes(case): functools.partial(emit, case) for case in possible}
                values = switched(builder, number, actions) if possible[1:] else emit(*possible)
                return values[0] if values else context.get_dummy_value()

            return result(*kinds), build

        typed.__signature__ = inspect.signature(body)
        typed.__name__, typed.__doc__ = body.__name__, body.__doc__
        return intrinsic(prefer_literal=True)(typed)

    return decorated
