"""What somebody asks to be erased."""

from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.log.excision import ExcisionRefused, Wanted

PATIENCE_SECONDS: Final = 60.0
"""How long open transactions may take to end, unless the request says otherwise."""


@dataclass(frozen=True, slots=True)
class ExcisionRequest:
    """Which records of which topic, and what to do about them."""

    topic: str
    wanted: Wanted
    partitions: tuple[int, ...] | None = None
    """Only these; None for all."""

    dry_run: bool = False
    """Whether to look and change nothing."""

    patience_seconds: float = PATIENCE_SECONDS
    """How long to wait for open transactions."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read the parameters of a request; `ExcisionRefused` if they make no sense."""
        try:
            chosen = value.get("partitions")
            request = cls(
                topic=str(value["topic"]),
                wanted=Wanted.from_json(value),
                partitions=None if chosen is None else tuple(sorted(set(map(int, chosen)))),
                dry_run=bool(value.get("dry_run", False)),
                patience_seconds=float(value.get("patience_ms", 1000 * PATIENCE_SECONDS)) / 1000,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ExcisionRefused(f"the request cannot be understood: {error!r}") from error
        if not request.wanted.keys and not request.wanted.headers:
            raise ExcisionRefused("neither a key nor a header was named: say what is to go")
        return request
