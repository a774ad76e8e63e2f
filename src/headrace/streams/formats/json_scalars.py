"""JSON values without parts become columns: one reader for each type."""

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.records.kernels.compiled import Bytes, read_only
from headrace.streams.formats.decoding import Reasons
from headrace.streams.formats.kernels import numbers, texts, times
from headrace.streams.formats.kernels.objects import Spans
from headrace.streams.formats.kernels.tokens import ABSENT

_SHOWN: Final = 40
"""How much of a value is shown in a reason."""

_LONGEST_EXPONENT: Final = 18

_PROBLEMS: Final = {
    texts.WRONG_KIND: "is no {type}",
    texts.HALF_CHARACTER: "has half of a surrogate pair, which is no character",
    numbers.OUT_OF_RANGE: "does not fit {type}",
    numbers.NOT_WHOLE: "is no whole number, as {type} wants",
    numbers.TOO_PRECISE: "has more decimals than {type} holds",
    times.NOT_A_TIME: "is no {type} in ISO 8601",
}


class Read(NamedTuple):
    """A column, one value per span, and why some spans gave none."""

    array: pa.Array
    reasons: Reasons


class Reader(Protocol):
    """Reads the values of one field."""

    def read(self, data: Bytes, spans: Spans) -> Read:
        """The column of these values; what is rejected has some value or other in it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where values go: the field's path, the name of its type for people, and its Arrow type."""

    path: str
    named: str
    arrow: pa.DataType

    def explain(self, data: Bytes, spans: Spans, codes: Bytes) -> Reasons:
        """Words for what the kernels found."""
        if not codes.any():
            return {}
        return {
            row: self.reason(_text(data, spans, row), _PROBLEMS[int(codes[row])])
            for row in np.flatnonzero(codes).tolist()
        }

    def reason(self, text: str, problem: str) -> str:
        """One sentence: which field, what it holds, what is wrong with that."""
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return f"{self.path}: {shown} {problem.format(type=self.named)}"


def _raw(data: Bytes, spans: Spans, row: int) -> bytes:
    return data[int(spans.starts[row]) : int(spans.ends[row])].tobytes()


def _text(data: Bytes, spans: Spans, row: int) -> str:
    return _raw(data, spans, row).decode(errors="replace")


def absent(spans: Spans) -> npt.NDArray[np.bool_] | None:
    """A mask of what is missing or null; None if nothing is."""
    mask = spans.kinds == ABSENT
    return mask if mask.any() else None


def validity(missing: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """The same as Arrow has it."""
    return None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))


@dataclass(frozen=True, slots=True)
class BooleanReader:
    """`true` and `false`."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        values = np.empty(len(spans.kinds), np.uint8)
        codes = np.zeros(len(spans.kinds), np.uint8)
        numbers.read_booleans(spans.kinds, values, codes)
        array = pa.array(values.view(np.bool_), self.target.arrow, absent(spans))
        return Read(array, self.target.explain(data, spans, codes))


@dataclass(frozen=True, slots=True)
class IntegerReader:
    """Whole numbers of 8 to 64 bits."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        kind = self.target.arrow.to_pandas_dtype()
        limits = np.iinfo(kind)
        values = np.empty(len(spans.kinds), np.int64)
        codes = np.zeros(len(spans.kinds), np.uint8)
        numbers.read_integers(data, *spans, int(limits.min), int(limits.max), values, codes)
        array = pa.array(values.astype(kind, copy=False), self.target.arrow, absent(spans))
        return Read(array, self.target.explain(data, spans, codes))


@dataclass(frozen=True, slots=True)
class FloatReader:
    """Floating point numbers: the nearest one to what is written."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        values = np.empty(len(spans.kinds), np.float64)
        codes = np.zeros(len(spans.kinds), np.uint8)
        numbers.read_doubles(data, *spans, values, codes)
        later = np.flatnonzero(codes == numbers.LATER)
        if len(later):
            values[later] = [float(_raw(data, spans, row)) for row in later.tolist()]
            codes[later] = 0
        with np.errstate(over="ignore"):
            narrow = values.astype(self.target.arrow.to_pandas_dtype(), copy=False)
        if not np.isfinite(narrow).all():
            for row in np.flatnonzero(np.isinf(narrow)).tolist():
                if b"Infinity" not in _raw(data, spans, row):
                    codes[row] = numbers.OUT_OF_RANGE
        array = pa.array(narrow, self.target.arrow, absent(spans))
        return Read(array, self.target.explain(data, spans, codes))


@dataclass(frozen=True, slots=True)
class StringReader:
    """Strings; an object or an array in the place of a string is kept as its JSON text."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        codes = np.zeros(len(spans.kinds), np.uint8)
        array = self._copy(data, spans, codes)
        reasons = self.target.explain(data, spans, codes)
        try:
            return Read(array.cast(self.target.arrow), reasons)
        except pa.ArrowInvalid:
            broken = [row for row, text in enumerate(array.to_pylist()) if not _is_text(text)]
        for row in broken:
            reasons[row] = self.target.reason(_text(data, spans, row), "is not in UTF-8")
        kinds = spans.kinds.copy()
        kinds[broken] = ABSENT
        array = self._copy(data, spans._replace(kinds=kinds), codes)
        return Read(array.cast(self.target.arrow), reasons)

    def _copy(self, data: Bytes, spans: Spans, codes: Bytes) -> pa.BinaryArray:
        count = len(spans.kinds)
        present = spans.kinds != ABSENT
        room = int(np.subtract(spans.ends, spans.starts, dtype=np.int64)[present].sum())
        bounds = np.empty(count + 1, np.int32)
        characters = np.empty(room, np.uint8)
        texts.read_strings(data, *spans, bounds, characters, codes)
        buffers = [validity(absent(spans)), pa.py_buffer(bounds), pa.py_buffer(characters)]
        return pa.Array.from_buffers(pa.binary(), count, buffers)


def _is_text(text: bytes | None) -> bool:
    try:
        return text is None or text.decode() is not None
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class BinaryReader:
    """Bytes, which JSON has no form of: base64, as everybody writes them."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        written, reasons = StringReader(Target("", "string", pa.string())).read(data, spans)
        values: list[bytes | None] = []
        reasons = {row: self._refusal(data, spans, row) for row in reasons}
        for row, text in enumerate(written.to_pylist()):
            try:
                values.append(None if text is None else base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                values.append(None)
                reasons[row] = self._refusal(data, spans, row)
        return Read(pa.array(values, self.target.arrow), reasons)

    def _refusal(self, data: Bytes, spans: Spans, row: int) -> str:
        return self.target.reason(_text(data, spans, row), "is no {type} in base64")


@dataclass(frozen=True, slots=True)
class TimestampReader:
    """Points in time: ISO 8601 (without a zone it is UTC), or a number of `unit` since 1970."""

    target: Target
    unit: str

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        values = np.empty(len(spans.kinds), np.int64)
        codes = np.zeros(len(spans.kinds), np.uint8)
        times.read_times(data, *spans, EPOCH_UNITS[self.unit], values, codes)
        array = pa.array(values, pa.int64(), absent(spans)).view(self.target.arrow)
        return Read(array, self.target.explain(data, spans, codes))


EPOCH_UNITS: Final = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""Powers of ten from a unit to microseconds."""


@dataclass(frozen=True, slots=True)
class DateReader:
    """Days: `YYYY-MM-DD`, or their number since 1970."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        values = np.empty(len(spans.kinds), np.int32)
        codes = np.zeros(len(spans.kinds), np.uint8)
        times.read_dates(data, *spans, values, codes)
        array = pa.array(values, pa.int32(), absent(spans)).view(self.target.arrow)
        return Read(array, self.target.explain(data, spans, codes))


@dataclass(frozen=True, slots=True)
class DecimalReader:
    """Decimals, digit by digit as they are written, as a number or in a string."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        scale, precision = self.target.arrow.scale, self.target.arrow.precision
        values = np.empty(len(spans.kinds), np.int64)
        codes = np.zeros(len(spans.kinds), np.uint8)
        bound = 10 ** min(precision, 18)
        numbers.read_decimals(data, *spans, scale, bound, values, codes)
        wide = np.empty((len(values), 2), np.int64)
        wide[:, 0] = values
        wide[:, 1] = values >> 63
        doubtful = codes == numbers.LATER
        if precision > 18:
            doubtful |= codes == numbers.OUT_OF_RANGE
        for row in np.flatnonzero(doubtful).tolist():
            codes[row], units = _units(_raw(data, spans, row), scale, precision)
            wide[row] = _words(units)
        buffers = [validity(absent(spans)), pa.py_buffer(wide)]
        array = pa.Array.from_buffers(self.target.arrow, len(values), buffers)
        return Read(array, self.target.explain(data, spans, codes))


@dataclass(frozen=True, slots=True)
class PackedDecimalReader:
    """Decimals as Kafka Connect writes them: their units as a big-endian number in base64."""

    target: Target

    def read(self, data: Bytes, spans: Spans) -> Read:
        """See `Reader`."""
        packed, reasons = BinaryReader(replace(self.target, arrow=pa.binary())).read(data, spans)
        wide = np.zeros((len(packed), 2), np.int64)
        bound = 10**self.target.arrow.precision
        for row, units in enumerate(packed.to_pylist()):
            if units is not None:
                number = int.from_bytes(units, "big", signed=True)
                if abs(number) < bound:
                    wide[row] = _words(number)
                else:
                    reasons[row] = self.target.reason(
                        _text(data, spans, row), _PROBLEMS[numbers.OUT_OF_RANGE]
                    )
        buffers = [validity(absent(spans)), pa.py_buffer(wide)]
        return Read(pa.Array.from_buffers(self.target.arrow, len(packed), buffers), reasons)


def _units(written: bytes, scale: int, precision: int) -> tuple[int, int]:
    """A decimal of any length as units of its type, and what is wrong with it."""
    mantissa, _, exponent = written.strip(b'"').lower().partition(b"e")
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    if not (whole + fraction).isdigit():
        return texts.WRONG_KIND, 0
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    if not significant:
        return 0, 0
    # No number has an exponent of so many digits that it matters which, and Python reads no more
    # than some thousand of them.
    power = int(exponent[:_LONGEST_EXPONENT] or 0) - len(fraction)
    places = power + scale + len(digits) - len(significant)
    if places + len(significant) > precision:
        return numbers.OUT_OF_RANGE, 0
    if places < 0:
        return numbers.TOO_PRECISE, 0
    units = int(significant) * 10**places
    return 0, -units if mantissa.startswith(b"-") else units


def _words(number: int) -> npt.NDArray[np.int64]:
    """The two words of a 128-bit integer."""
    return np.frombuffer(number.to_bytes(16, "little", signed=True), np.int64)


def as_bytes(memory: Any) -> Bytes:
    """Arrow memory as the kernels read it; nothing at all is an empty array."""
    return read_only(memory if memory is not None else b"", np.uint8)
