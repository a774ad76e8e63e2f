"""The views that a server has: those of settings, those that flows declared, and those rebuilt."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from headrace.kafka.cluster import Cluster
from headrace.settings import ServeSettings, ViewSettings
from headrace.views.errors import InvalidView, UnknownView
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.store import Store
from headrace.views.registry import RegistryFollower
from headrace.views.serving.view import View


class Catalog:
    """Views by name; readers' names are looked up among those that were promoted."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ServeSettings,
        given: Iterable[ViewDescription],
        loop: asyncio.AbstractEventLoop,
        *,
        declared: bool = True,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._loop = loop
        self._given = {each.name: each for each in given}
        self._declared = declared
        self._views: dict[str, View] = {}
        self._served: dict[str, str] = {}
        self._changing = asyncio.Lock()
        self._registry = RegistryFollower(cluster, self._told)

    async def start(self) -> None:
        """Begin to fill the views that are known, and to learn of others."""
        self._registry.start()
        await self._refresh()

    async def stop(self) -> None:
        """End everything."""
        await self._loop.run_in_executor(None, self._registry.stop)
        await asyncio.gather(
            *(self._loop.run_in_executor(None, each.stop) for each in self._views.values())
        )

    @property
    def names(self) -> list[str]:
        """The names that readers can use."""
        served = (name for name, by in self._served.items() if by in self._views)
        return sorted({*self._views, *served})

    @property
    def views(self) -> list[View]:
        """All views, by name."""
        return [self._views[name] for name in sorted(self._views)]

    @property
    def error(self) -> str:
        """Why nothing is heard of other views, if so."""
        return self._registry.error

    def serving(self, name: str) -> str:
        """The view that readers of a name are shown."""
        by = self._served.get(name, name)
        return by if by in self._views else name

    @property
    def listed(self) -> list[tuple[str, View]]:
        """Readers' names and the views that they are shown, and those shown to nobody."""
        shown = [(name, self.named(name)) for name in self.names]
        seen = {view.description.name for _, view in shown}
        return [*shown, *(("", view) for view in self.views if view.description.name not in seen)]

    def named(self, name: str) -> View:
        """The view that readers of a name are shown; UnknownView if there is none."""
        return self.exactly(self.serving(name), among=self.names)

    def exactly(self, name: str, *, among: list[str] | None = None) -> View:
        """The view that is called so itself; UnknownView if there is none."""
        if name not in self._views:
            raise UnknownView(name, among or sorted(self._views))
        return self._views[name]

    def _told(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._refresh()))

    async def _refresh(self) -> None:
        """Begin views that are new, end those that are gone, and let readers look again."""
        async with self._changing:
            registry = self._registry.registry
            declared = dict(registry.declared) if self._declared else {}
            wanted = {**declared, **self._given}
            before = (set(self._views), self._served)
            for name, view in list(self._views.items()):
                now = wanted.get(name)
                if now is None or not now.is_built_like(view.description):
                    del self._views[name]
                    view.hub.wake()
                    ended = view.drop if now is None else view.stop
                    await self._loop.run_in_executor(None, ended)
            for name, description in wanted.items():
                if name not in self._views:
                    self._views[name] = self._made(description)
            self._served = dict(registry.served)
            for name, view in self._views.items():
                view.notes = registry.notes.get(name, ())
                view.wake()
                if before != (set(self._views), self._served):
                    view.hub.wake()

    def _made(self, description: ViewDescription) -> View:
        store = store_for(description, self._settings)
        view = View(description, store, self._cluster, self._loop, history=self._settings.history)
        view.start()
        return view


def store_for(description: ViewDescription, settings: ServeSettings) -> Store:
    """The store of a view, where settings say that it is kept."""
    scheme = settings.store.partition(":")[0]
    if scheme == "sqlite":
        from headrace.views.materialized.sqlite import SqliteStore

        path = Path(settings.directory) / f"{description.name}.sqlite"
        return SqliteStore(path, history=settings.history)
    if scheme in ("postgresql", "postgres"):
        from headrace.views.materialized.postgres import PostgresStore

        return PostgresStore(settings.store, description.name, history=settings.history)
    if scheme in ("redis", "rediss", "unix"):
        from headrace.views.materialized.redis import RedisStore

        return RedisStore(settings.store, description.name, history=settings.history)
    raise InvalidView(
        f"Views cannot be kept in {scheme}; [serve] store is sqlite, or a URL that begins with "
        "postgresql:// or redis://."
    )


def described(view: ViewSettings) -> ViewDescription:
    """A view of the settings."""
    return ViewDescription(view.called, view.source, view.key, view.format)
