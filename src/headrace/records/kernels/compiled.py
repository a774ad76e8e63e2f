"""How kernels are compiled, and the one operation that Numba has no fast form of."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

UInt64s: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Element = TypeVar("Element", bound=np.generic)


def compiled(function: Kernel) -> Kernel:
    """Compile on first use, and keep the machine code on disk where there is a place for it."""
    try:
        return cast("Kernel", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # Numba refuses to cache when neither the package nor a home directory can be written to.
        return cast("Kernel", numba.njit(nogil=True)(function))


def read_only(memory: Any, dtype: type[Element]) -> npt.NDArray[Element]:
    """View memory as an array that a kernel only reads.

    Kernels are compiled for each type of their arguments, and an array that can be written to has
    another type than one that cannot.
    """
    array = np.frombuffer(memory, dtype)
    array.flags.writeable = False
    return array


def _generate_copy(
    _context: Any, source: Any, start: Any, target: Any, at: Any, length: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, start, target, at, length = arguments
        source_type, _, target_type, _, _ = signature.args
        origin = context.make_array(source_type)(context, builder, source).data
        destination = context.make_array(target_type)(context, builder, target).data
        cgutils.raw_memcpy(  # type: ignore[no-untyped-call]
            builder,
            builder.gep(destination, [at]),
            builder.gep(origin, [start]),
            length,
            itemsize=1,
        )
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp, types.intp), generate


copy_bytes = cast("Callable[[Bytes, int, Bytes, int, int], None]", intrinsic(_generate_copy))
"""Copy from `source[start:]` to `target[at:]` that many bytes, which must be there.

Slices would say the same, but their bookkeeping costs more than the short copies that records are
made of: this way the kernels are more than twice as fast.
"""


def _generate_load(_context: Any, source: Any, start: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, start = arguments
        origin = context.make_array(signature.args[0])(context, builder, source).data
        wide = context.get_value_type(types.uint64).as_pointer()
        pointer = builder.bitcast(builder.gep(origin, [start]), wide)
        return builder.load(pointer, align=1)

    return types.uint64(source, types.intp), generate


load_word = cast("Callable[[Bytes, int], np.uint64]", intrinsic(_generate_load))
"""The eight bytes from `source[start]` on, which must be there, in the machine's own order."""


def _generate_prefetch(_context: Any, source: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, at = arguments
        origin = context.make_array(signature.args[0])(context, builder, source).data
        byte = context.get_value_type(types.uint8).as_pointer()
        pointer = builder.bitcast(builder.gep(origin, [at]), byte)
        number = context.get_value_type(types.int32)
        name = "llvm.prefetch.p0i8"
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(source, types.intp), generate


prefetch = cast("Callable[[npt.NDArray[Any], int], None]", intrinsic(_generate_prefetch))
"""Bring the element `source[at]` close to the processor, while it has something else to do."""
