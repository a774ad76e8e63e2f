"""How a section of settings is declared: a frozen dataclass whose fields say what they accept.

    @dataclass(frozen=True, slots=True)
    class MailSettings(Section):
        relay: str = setting(Address(), "127.0.0.1:25", "Where mail is handed over.")
        patience_ms: int = setting(Duration(), "30s", "How long to wait for the relay.")

Defaults are written as a person would write them in the file. A duration's field ends in `_ms`, its
key in the file does not: there the value carries the unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, cast

from headrace.settings.errors import InvalidSetting
from headrace.settings.kinds import Kind, Properties

T = TypeVar("T")

_DECLARATION = "headrace.setting"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is known about one setting before anybody gives it a value."""

    field_name: str
    key: str
    kind: Kind[object]
    default: object
    about: str


def setting(kind: Kind[T], default: object, about: str, *, secret: bool = False) -> T:
    """Declare a field of a section: what it accepts, its default as written, and what it is for.

    What is secret, or a table, may hold a password and is not in the section's `repr`.
    """
    value = kind.parse(default)
    return field(
        default_factory=lambda: value,
        metadata={_DECLARATION: (kind, default, about)},
        repr=not (secret or isinstance(kind, Properties)),
    )


def declarations(section: type["Section"]) -> Iterator[Declaration]:
    """The settings of a section, in the order they were declared."""
    for each in fields(cast(Any, section)):
        kind, default, about = each.metadata[_DECLARATION]
        yield Declaration(each.name, each.name.removesuffix("_ms"), kind, default, about)


class Section:
    """A group of settings under one [name]; refuses values that its kinds do not accept."""

    __slots__ = ()

    listed: ClassVar[str] = ""
    """The setting that a list of tables under the section's own name is for, if it has one."""

    def __post_init__(self) -> None:
        for declared in declarations(type(self)):
            value = getattr(self, declared.field_name)
            try:
                declared.kind.accept(value)
            except ValueError as error:
                name = f"{type(self).__name__}.{declared.field_name}"
                raise InvalidSetting(f"{name} = {value!r}: {error}.") from None
