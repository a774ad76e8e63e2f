"""Schemas as text: `"user_id string, at timestamp"` becomes a StructType without a running Spark.

Spark's own parser needs a Java process. This one reads the types that records can have, in all the
spellings that Spark reads them, so that a flow can be described, drawn and checked without one.
"""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.streams.formats.errors import UnusableSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

_TOKEN: Final = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>\w+)|'(?P<text>(?:[^'\\]|\\.)*)'|(?P<sign>[<>(),:]))"
)

_NAMES: Final = {
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "byte": "ByteType",
    "smallint": "ShortType",
    "short": "ShortType",
    "int": "IntegerType",
    "integer": "IntegerType",
    "bigint": "LongType",
    "long": "LongType",
    "float": "FloatType",
    "real": "FloatType",
    "double": "DoubleType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ltz": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
}
_DECIMALS: Final = ("decimal", "dec", "numeric")


class _Token(NamedTuple):
    """A piece of the text: its kind, what it says, and where it starts."""

    kind: str
    text: str
    position: int


def parse_ddl(text: str) -> "StructType":
    """Read a list of columns, each `name type [NOT NULL] [COMMENT 'text']`.

    Raises:
        UnusableSchema: the text is not such a list; the message points at the place.
    """
    return _Parser(text).schema()


class _Parser:
    """Reads tokens from left to right; each method reads one construct of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def schema(self) -> "StructType":
        from pyspark.sql.types import StructType

        whole = self._peek()
        if whole.text.lower() == "struct" and self._tokens[1].text == "<":
            parsed = self._type()
            assert isinstance(parsed, StructType)
        else:
            parsed = self._fields(end="")
        if self._peek().kind != "end":
            raise self._unexpected("a comma or the end")
        return parsed

    def _fields(self, end: str) -> "StructType":
        from pyspark.sql.types import StructType

        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        if end and not self._take(end):
            raise self._unexpected(f"a comma or {end}")
        return StructType(fields)

    def _field(self) -> "StructField":
        from pyspark.sql.types import StructField

        name = self._tokens[self._next]
        if name.kind not in ("word", "quoted"):
            raise self._unexpected("the name of a column")
        self._next += 1
        self._take(":")
        data_type = self._type()
        nullable = True
        if self._take("not"):
            if not self._take("null"):
                raise self._unexpected("NULL")
            nullable = False
        metadata = None
        if self._take("comment"):
            comment = self._tokens[self._next]
            if comment.kind != "text":
                raise self._unexpected("a comment in quotes")
            self._next += 1
            metadata = {"comment": comment.text}
        return StructField(name.text, data_type, nullable, metadata)

    def _type(self) -> "DataType":
        from pyspark.sql import types

        name = self._tokens[self._next]
        word = name.text.lower()
        if name.kind != "word":
            raise self._unexpected("a type")
        self._next += 1
        if word in _NAMES:
            simple: DataType = getattr(types, _NAMES[word])()
            return simple
        if word in _DECIMALS:
            return self._decimal()
        if word == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return types.ArrayType(element)
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return types.MapType(key, value)
        if word == "struct":
            self._expect("<")
            return types.StructType() if self._take(">") else self._fields(end=">")
        self._next -= 1
        raise self._unexpected(
            "a type (boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, "
            "binary, date, timestamp, timestamp_ntz, array<…>, map<…>, struct<…>)"
        )

    def _decimal(self) -> "DataType":
        from pyspark.sql.types import DecimalType

        if not self._take("("):
            return DecimalType(10, 0)
        precision = self._number()
        scale = self._number() if self._take(",") else 0
        self._expect(")")
        if not 0 <= scale <= precision <= 38:
            raise self._unexpected("a precision of at most 38 and a scale within it, before this")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._tokens[self._next]
        if not token.text.isdecimal():
            raise self._unexpected("a number")
        self._next += 1
        return int(token.text)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, text: str) -> bool:
        token = self._peek()
        taken = token.kind in ("word", "sign") and token.text.lower() == text
        self._next += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(sign)

    def _split(self) -> list[_Token]:
        tokens = []
        position = 0
        end = len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self._error(position, "a name, a type or one of < > ( ) , :")
            kind = match.lastgroup or ""
            text = match[kind].replace("``", "`") if kind == "quoted" else match[kind]
            tokens.append(_Token(kind, text, match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", end), _Token("end", "", end)]

    def _unexpected(self, wanted: str) -> UnusableSchema:
        return self._error(self._peek().position, wanted)

    def _error(self, position: int, wanted: str) -> UnusableSchema:
        found = self._text[position:].strip()[:30]
        where = f"at {found!r}" if found else "at its end"
        return UnusableSchema(f"schema {self._text!r}: {where} there should be {wanted}")
