"""Bytes by their address.

An array that is handed from function to function has its references counted at each step, which
costs more than looking at a byte does; an address is a number. Kernels take arrays, which keep the
memory alive, and hand `address(array)` to the small functions that they are made of. These look at
nothing outside the bounds that they are given.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _generate_address(_context: Any, array: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.intp))

    return types.intp(array), generate


address = cast("Callable[[Any], int]", intrinsic(_generate_address))
"""Where the elements of an array begin."""


def _pointer(context: Any, builder: Any, arguments: Any, kind: Any) -> Any:
    place = builder.add(arguments[0], arguments[1])
    return builder.inttoptr(place, context.get_value_type(kind).as_pointer())


def _generate_byte(_context: Any, _memory: Any, _position: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = builder.load(_pointer(context, builder, arguments, types.uint8))
        return builder.zext(byte, context.get_value_type(types.intp))

    return types.intp(types.intp, types.intp), generate


byte_at = cast("Callable[[int, int], int]", intrinsic(_generate_byte))
"""The byte at a position behind an address, as a signed number like all positions."""


def _generate_word(_context: Any, _memory: Any, _position: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, arguments, types.uint64), align=1)

    return types.uint64(types.intp, types.intp), generate


word_at = cast("Callable[[int, int], np.uint64]", intrinsic(_generate_word))
"""The eight bytes from a position behind an address on, in the machine's own order."""


def _generate_count(_context: Any, _word: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        no_zero = ir.Constant(ir.IntType(1), 1)
        return builder.cttz(arguments[0], no_zero)

    return types.intp(types.uint64), generate


trailing_zeros = cast("Callable[[np.uint64], int]", intrinsic(_generate_count))
"""How many of the lowest bits of a number other than 0 are 0."""
