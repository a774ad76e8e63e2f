"""Another version of a view beside the one that is served, and the switch from one to the other.

What is decided here is written to the registry, so that every server does the same.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.kafka.cluster import Cluster
from headrace.views.client import Views
from headrace.views.errors import UnknownView, ViewsError
from headrace.views.materialized.description import ViewDescription
from headrace.views.positions import is_reflected, parse_positions
from headrace.views.registry import (
    RegistryWriter,
    declaration,
    read_registry,
    service,
)

_LOOK_SECONDS = 0.1


class MigrationRefused(ViewsError):
    """A view cannot be rebuilt, promoted or dropped as things are."""


def rebuild(cluster: Cluster, views: Views, name: str, beside: str) -> ViewDescription:
    """Have every server build a view once more, from the beginning of its topic, as `beside`."""
    standing = {each["served_by"]: each for each in views.views()}
    source = _known(standing, name)
    if beside in standing:
        raise MigrationRefused(
            f"There is a view {beside} already; choose another name, or drop it first with "
            f"`headrace views drop {beside}`."
        )
    described = ViewDescription.from_json(source["description"])
    view = replace(described, name=beside, of=described.served_as, generation=secrets.token_hex(4))
    RegistryWriter(cluster).write(declaration(view))
    return view


def await_built(
    views: Views,
    name: str,
    *,
    tell: Callable[[dict[str, Any]], None] = lambda status: None,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    """Wait until a view has applied all that was there; `tell` hears how it goes on."""
    while not stopped():
        status = {each["served_by"]: each for each in views.views()}.get(name)
        if status is not None:
            tell(status)
            if not status["building"]:
                return status
        time.sleep(_LOOK_SECONDS)
    return None


def promote(
    cluster: Cluster, views: Views, name: str, *, force: bool = False, patience: float = 15.0
) -> str:
    """Show a view to the readers of the name that it is a version of; gives that name.

    It must reflect all that the one before reflects. If it does not yet, it is waited for.
    """
    standing = {each["served_by"]: each for each in views.views()}
    new = _known(standing, name)
    shown = ViewDescription.from_json(new["description"]).served_as
    before = next((each for each in views.views() if each["name"] == shown), None)
    if before is not None and before["served_by"] == name:
        raise MigrationRefused(f"Readers of {shown} are shown {name} already.")
    if not force:
        _require_caught_up(views, name, before, patience)
    RegistryWriter(cluster).write(service(shown, name))
    _until(lambda: any(_shows(each, shown, name) for each in views.views()), patience)
    return shown


def drop(cluster: Cluster, views: Views, name: str) -> None:
    """Have every server forget a view and remove its rows; its topic stays."""
    registry = read_registry(cluster)
    if name not in registry.declared:
        known = sorted(registry.declared)
        if name in {each["served_by"] for each in views.views()}:
            raise MigrationRefused(
                f"View {name} is not declared by anybody else but the server's own settings; take "
                "its [[view]] or --view away."
            )
        raise UnknownView(name, known)
    shown = registry.declared[name].served_as
    others = [one for one, each in registry.declared.items() if each.served_as == shown]
    if registry.serving(shown) == name and len(others) > 1:
        raise MigrationRefused(
            f"Readers of {shown} are shown {name}; promote another version first: "
            f"{', '.join(each for each in others if each != name)}."
        )
    RegistryWriter(cluster).write((f"declared/{name}", None), (f"position/{name}", None))


def promote_flow(cluster: Cluster, flow: str) -> list[str]:
    """Show the views of a version of a flow to the readers of their names; gives the names."""
    views = [each for each in read_registry(cluster).declared.values() if each.flow == flow]
    if views:
        RegistryWriter(cluster).write(*(service(each.served_as, each.name) for each in views))
    return [each.served_as for each in views]


def drop_flow(cluster: Cluster, flow: str) -> None:
    """Forget the views of a version of a flow."""
    views = [each for each in read_registry(cluster).declared.values() if each.flow == flow]
    if views:
        forgotten = [f"{kind}/{each.name}" for each in views for kind in ("declared", "position")]
        RegistryWriter(cluster).write(*((each, None) for each in forgotten))


def _require_caught_up(
    views: Views, name: str, before: dict[str, Any] | None, patience: float
) -> None:
    # A version of another flow has another topic; what both know of are the sources.
    required = parse_positions(before["position"]) if before and before["position"] else {}

    def reached() -> bool:
        status = {each["served_by"]: each for each in views.views()}[name]
        position = parse_positions(status["position"]) if status["position"] else {}
        topics = {each.topic for each in position}
        shared = {each: offset for each, offset in required.items() if each.topic in topics}
        return not status["building"] and is_reflected(shared, position)

    if not _until(reached, patience):
        raise MigrationRefused(
            f"View {name} is behind the one that is shown now. Wait until it has caught up, or "
            "promote it as it is with --force."
        )


def _known(standing: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in standing:
        raise UnknownView(name, sorted(standing))
    return standing[name]


def _shows(status: dict[str, Any], name: str, view: str) -> bool:
    return bool(status["name"] == name and status["served_by"] == view)


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
