"""Records as they are typed, piped or kept in files: one per line, or one per argument."""

from collections.abc import Callable, Iterable, Iterator

from headrace.cli.record_json import OutgoingRecord, decode_record

LineReader = Callable[[bytes], OutgoingRecord]
"""Makes a record of a line; ValueError says what is wrong with the line."""


def line_reader(
    *, as_json: bool, key: str | None, key_separator: str | None, headers: Iterable[str]
) -> LineReader:
    """How lines become records.

    A line is the value; with `key_separator`, what comes before its first occurrence is the key;
    with `as_json`, the line is a record in its JSON form. `key` and `headers` (NAME=VALUE) are
    given to every record; those of the line itself come first.
    """
    common_key = None if key is None else key.encode()
    common_headers = list(map(_header, headers))
    separator = None if key_separator is None else _unescaped(key_separator).encode()

    def read(line: bytes) -> OutgoingRecord:
        if as_json:
            record = decode_record(line)
        elif separator is None:
            record = OutgoingRecord(line)
        else:
            before, found, value = line.partition(separator)
            if not found:
                raise ValueError(f"has no key separator {key_separator}")
            record = OutgoingRecord(value, before)
        if common_headers:
            record = record._replace(headers=[*(record.headers or ()), *common_headers])
        return record._replace(key=common_key) if record.key is None else record

    return read


def lines_of(stream: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a binary stream without their ends."""
    for line in stream:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _header(pair: str) -> tuple[str, str | bytes | None]:
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise ValueError(f'"{pair}" is not NAME=VALUE')
    return name, value.encode()


def _unescaped(separator: str) -> str:
    """A shell makes it hard to write a tab, so backslash t is one."""
    return separator.replace("\\t", "\t")
