"""Positions in the log of MariaDB and of MySQL, which are sets of transactions."""

import struct
import uuid


class MariadbPosition:
    """The last transaction of each domain.

    >>> position = MariadbPosition("0-1-7,5-2-3")
    >>> position.add("0-3-8"); str(position)
    '0-3-8,5-2-3'
    """

    def __init__(self, text: str) -> None:
        listed = [each.strip() for each in text.split(",") if each.strip()]
        self._last = {each.partition("-")[0]: each for each in listed}

    def add(self, gtid: str) -> None:
        """This transaction was told too."""
        self._last[gtid.partition("-")[0]] = gtid

    def __str__(self) -> str:
        return ",".join(self._last[each] for each in sorted(self._last, key=int))


class MysqlPosition:
    """Every transaction by the server where it began and its number there, in ranges.

    >>> server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    >>> position = MysqlPosition(f"{server}:1-3:7")
    >>> position.add(f"{server}:4"); position.add(f"{server}:6"); str(position)
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4:6-7'
    """

    def __init__(self, text: str) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        for each in "".join(text.split()).split(","):
            server, *ranges = each.split(":")
            for part in ranges:
                first, _, last = part.partition("-")
                self._insert(server.lower(), int(first), int(last or first))

    def add(self, gtid: str) -> None:
        """This transaction was told too."""
        server, _, number = gtid.partition(":")
        self._insert(server, int(number), int(number))

    def encoded(self) -> bytes:
        """As the server wants it to be told."""
        parts = [struct.pack("<Q", len(self._ranges))]
        for server, ranges in self._ranges.items():
            parts.append(uuid.UUID(server).bytes + struct.pack("<Q", len(ranges)))
            parts += [struct.pack("<QQ", first, last + 1) for first, last in ranges]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            ":".join([server, *(_range(first, last) for first, last in self._ranges[server])])
            for server in sorted(self._ranges)
        )

    def _insert(self, server: str, first: int, last: int) -> None:
        ranges = self._ranges.setdefault(server, [])
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
            return
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*ranges, (first, last)]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._ranges[server] = merged


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
