"""CRC-32C: the checksum of record batches and of all other files."""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]


def _extension() -> Any:
    """The compiled module of the package `crc32c`, without the package itself.

    That looks up its own version when it is imported, which takes longer than all of the log, and
    would be a tenth of the time that a broker needs to start.
    """
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c
elif extension := _extension():
    crc32c = extension.crc32c
else:
    # Another release of the package, laid out in another way.
    from crc32c import crc32c
