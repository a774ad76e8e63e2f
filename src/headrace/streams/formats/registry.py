"""A client of schema registries that speak Confluent's HTTP interface (Karapace and Apicurio do).

Schemas never change once they have an id, so what was fetched is kept for the process's life. A
registry that does not answer is asked again, and then the task fails: records that could not be
understood for want of a registry are no dead letters.
"""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from headrace.streams.formats.errors import RegistryFailed, RegistryUnreachable, UnknownFormat

BACKOFF_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
"""How long to wait before each further attempt."""

TIMEOUT_SECONDS: Final = 10.0
"""How long one request may take."""

_ACCEPTED: Final = "application/vnd.schemaregistry.v1+json, application/json"
_TRIED_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry: its kind (AVRO, JSON, PROTOBUF), its text and what it refers to."""

    kind: str
    text: str
    references: tuple["RegisteredSchema", ...] = ()


class Registry:
    """Asks one registry; `address` may hold several, separated by commas, tried in turn."""

    def __init__(
        self,
        address: str,
        user: str | None = None,
        password: str | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause = pause
        self._headers = {"Accept": _ACCEPTED}
        self._addresses = []
        for one in address.split(","):
            parts = urlsplit(one.strip())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise UnknownFormat(
                    f"registry={one.strip()!r} is no address; it looks like http://localhost:8081"
                )
            user, password = user or parts.username, password or parts.password
            place = parts.netloc.rpartition("@")[2]
            self._addresses.append(
                urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
            )
        if user is not None:
            token = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._schemas: dict[int, RegisteredSchema] = {}

    def schema(self, number: int) -> RegisteredSchema | None:
        """The schema with this id; None if the registry does not know it."""
        found = self._schemas.get(number)
        if found is None:
            answer = self._get(f"/schemas/ids/{number}")
            if answer is None:
                return None
            found = self._schemas[number] = self._registered(answer)
        return found

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The latest schema of a subject; None if there is no such subject."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else self._registered(answer)

    def _registered(self, answer: Mapping[str, Any]) -> RegisteredSchema:
        references = []
        for reference in answer.get("references") or ():
            subject, version = reference["subject"], reference["version"]
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if found is None:
                raise RegistryFailed(
                    f"the registry has a schema that refers to version {version} of {subject}, "
                    f"and does not have that; register it again"
                )
            references.append(self._registered(found))
        kind = answer.get("schemaType") or "AVRO"
        return RegisteredSchema(kind, answer["schema"], tuple(references))

    def _get(self, path: str) -> Mapping[str, Any] | None:
        """The answer to a request, or None if there is no such thing."""
        problem = ""
        for wait in (*BACKOFF_SECONDS, None):
            for address in self._addresses:
                request = urllib.request.Request(address + path, headers=self._headers)  # noqa: S310
                try:
                    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
                        answer: Mapping[str, Any] = json.load(response)
                        return answer
                except urllib.error.HTTPError as error:
                    if error.code == _NOT_FOUND:
                        return None
                    problem = f"{address} answered {error.code} {error.reason}"
                    if error.code not in _TRIED_AGAIN:
                        raise RegistryFailed(
                            f"{problem} to {path}; {_advice(error.code)}"
                        ) from error
                except (OSError, ValueError) as error:
                    problem = f"{address} did not answer: {getattr(error, 'reason', error)}"
            if wait is not None:
                self._pause(wait)
        raise RegistryUnreachable(
            f"the schema registry at {problem}, {len(BACKOFF_SECONDS) + 1} times; "
            f"check the option registry, and that it runs"
        )


def _advice(code: int) -> str:
    if code in (401, 403):
        return "check the options registry.user and registry.password"
    return "check the option registry"


def registry_of(options: Mapping[str, str]) -> Registry:
    """The registry that the options name, with all that this process has learned from it."""
    address = options.get("registry")
    if not address:
        raise UnknownFormat("this format needs the option registry, such as http://localhost:8081")
    return _shared(address, options.get("registry.user"), options.get("registry.password"))


@cache
def _shared(address: str, user: str | None, password: str | None) -> Registry:
    return Registry(address, user, password)


def latest_schema(
    options: Mapping[str, str], topics: tuple[str, ...], kind: str
) -> RegisteredSchema:
    """The latest schema of the option `subject`, or of the values of the only topic."""
    subject = options.get("subject")
    if subject is None:
        if len(topics) != 1:
            raise UnknownFormat(
                "without a schema there must be one topic, or the option subject, "
                "so that the registry can be asked for one"
            )
        subject = f"{topics[0]}-value"
    found = registry_of(options).latest(subject)
    if found is None:
        raise RegistryFailed(
            f"the registry has no subject {subject}; give a schema, or the option subject"
        )
    if found.kind != kind:
        raise UnknownFormat(
            f"the schema of {subject} is {found.kind}, not {kind}; choose that format"
        )
    return found
