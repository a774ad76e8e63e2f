"""Everything that is observed, and everything that can be done, of one cluster."""

from collections.abc import Mapping
from functools import partial
from typing import cast

from headrace.console.observing.captures import CapturesGatherer, CapturesSample
from headrace.console.observing.decoding import Decoder
from headrace.console.observing.flows import FlowsGatherer, FlowsSample
from headrace.console.observing.groups import GroupsGatherer, GroupsSample
from headrace.console.observing.observation import Observation
from headrace.console.observing.processes import Processes
from headrace.console.observing.sinks import SinksGatherer, SinksSample
from headrace.console.observing.topics import TopicsGatherer, TopicsSample
from headrace.console.observing.views import ViewServer, ViewsSample
from headrace.console.supervising.parts import reachable
from headrace.console.supervising.record import UpSeen
from headrace.kafka import Cluster
from headrace.kafka.connection import connect
from headrace.kafka.statuses import Status, StatusFollower
from headrace.settings import Settings

_REQUEST_SECONDS = 5.0
"""How long a request of the console may take."""


def _view_server(settings: Settings) -> ViewServer:
    """The server of views that the settings name, and a token that opens it if it wants one."""
    address = settings.console.views or f"http://{reachable(settings.serve.address)}"
    tokens = [each.token for each in settings.serve.tokens if "*" in each.views]
    return ViewServer(address, settings.console.views_token or next(iter(tokens), None))


class Observatory:
    """Watches one cluster in the background; `start` it and `stop` it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings.kafka, timeout=_REQUEST_SECONDS)
        self.decoder = Decoder(settings.console.registry)
        self.processes = Processes(settings.up.state)
        interval = settings.console.refresh_ms
        self._follower = StatusFollower(self.cluster)
        self._statuses: Mapping[str, Status] = {}
        self._group_lags = GroupsGatherer(self.cluster, settings.lag)
        topics = TopicsGatherer(connect(settings.kafka))
        sinks = SinksGatherer(lambda: self._statuses)
        flows = FlowsGatherer(settings.streams)
        captures = CapturesGatherer(self.cluster, settings.capture, lambda: self._statuses)
        every = partial(Observation, interval_ms=interval)
        self.topics: Observation[TopicsSample] = every("topics", topics.gather, TopicsSample())
        self.flows: Observation[FlowsSample] = every(
            "flows",
            lambda: flows.gather(self._read_statuses()),
            FlowsSample(),
            close=self._follower.close,
        )
        self.captures: Observation[CapturesSample] = every(
            "captures", captures.gather, CapturesSample()
        )
        self.sinks: Observation[SinksSample] = every("sinks", sinks.gather, SinksSample())
        self.groups: Observation[GroupsSample] = Observation(
            "groups",
            self._group_lags.gather,
            GroupsSample(),
            interval_ms=max(interval, min(settings.lag.interval_ms, 5_000)),
            close=self._group_lags.close,
        )
        self.up: Observation[UpSeen] = Observation(
            "processes", self.processes.gather, UpSeen(), interval_ms=min(interval, 1_000)
        )
        self.view_server = _view_server(settings)
        self.views: Observation[ViewsSample] = every(
            "views", self.view_server.gather, ViewsSample()
        )

    def start(self) -> None:
        """Begin to watch."""
        for each in self._all:
            each.start()

    def stop(self) -> None:
        """Watch no more."""
        for each in self._all:
            each.stop()

    @property
    def reachable(self) -> bool:
        """Whether the cluster answered when it was last asked."""
        return not self.topics.seen.failure

    def lag_points(self, group: str) -> list[tuple[int, int, int]]:
        """The course of a group's lag: times, records, milliseconds."""
        points = self._group_lags.points(group)
        return [(each.at_ms, each.records, each.time_ms) for each in points]

    @property
    def _all(self) -> "tuple[Observation[object], ...]":
        return cast(
            "tuple[Observation[object], ...]",
            (
                self.topics,
                self.flows,
                self.captures,
                self.groups,
                self.up,
                self.views,
                self.sinks,
            ),
        )

    def _read_statuses(self) -> Mapping[str, Status]:
        self._statuses = self._follower.read()
        return self._statuses
