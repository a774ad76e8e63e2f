"""What windows are, computed event by event and without any cleverness: the oracle."""

from dataclasses import dataclass, field
from typing import Any

from headrace.streams.windows.kinds import Aligned, Session, Sliding, Window

Event = dict[str, Any]
Key = tuple[int, int, Any]


@dataclass
class Model:
    """Every event that was taken, and for aligned windows into which."""

    kind: Window
    lateness: int
    watermark: int | None = None
    taken: list[Event] = field(default_factory=list)
    members: dict[Key, list[Event]] = field(default_factory=dict)
    late: list[Event] = field(default_factory=list)
    timeless: list[Event] = field(default_factory=list)

    def batch(self, events: list[Event], watermark: int | None) -> None:
        timed = [each for each in events if each["t"] is not None]
        self.timeless += [each for each in events if each["t"] is None]
        in_time = self._in_time(timed)
        self.late += [each for each in timed if each not in in_time]
        self.taken += in_time
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)

    def table(self, *, closed_only: bool) -> dict[Key, list[Event]]:
        windows = {
            key: (closes, events)
            for key, closes, events in self._windows()
            if not closed_only or (self.watermark is not None and closes <= self.watermark)
        }
        return {key: events for key, (_, events) in windows.items()}

    def _in_time(self, events: list[Event]) -> list[Event]:
        before = self.watermark
        if isinstance(self.kind, Aligned):
            return [each for each in events if self._joined(each)]
        if before is None:
            return events
        bound = before - self.lateness
        if isinstance(self.kind, Sliding):
            return [each for each in events if each["t"] >= bound]
        accepted = []
        for key in {each["k"] for each in events}:
            held = [
                event
                for session in self._sessions([each for each in self.taken if each["k"] == key])
                if self._closes(session) + self.lateness > before
                for event in session
            ]
            first = min((each["t"] for each in held), default=None)
            hopeful = [
                each
                for each in events
                if each["k"] == key
                and (each["t"] >= bound or (first is not None and each["t"] >= first))
            ]
            for session in self._sessions([*held, *hopeful]):
                open_still = self._closes(session) + self.lateness > before
                if open_still or any(each in held for each in session):
                    accepted += [each for each in session if each not in held]
        return [each for each in events if each in accepted]

    def _joined(self, event: Event) -> bool:
        assert isinstance(self.kind, Aligned)
        size, every = self.kind.size, self.kind.every
        found = False
        for start in range(event["t"] - size, event["t"] + 1):
            if start % every or start + size <= event["t"]:
                continue
            if self.watermark is None or start + size + self.lateness > self.watermark:
                self.members.setdefault((start, start + size, event["k"]), []).append(event)
                found = True
        return found

    def _windows(self) -> list[tuple[Key, int, list[Event]]]:
        if isinstance(self.kind, Aligned):
            return [(key, key[1], events) for key, events in self.members.items()]
        found = []
        for key in {each["k"] for each in self.taken}:
            mine = [each for each in self.taken if each["k"] == key]
            if isinstance(self.kind, Sliding):
                for time in {each["t"] for each in mine}:
                    start = time - self.kind.size
                    inside = [each for each in mine if start < each["t"] <= time]
                    found.append(((start, time, key), time + 1, inside))
                continue
            for session in self._sessions(mine):
                start = session[0]["t"]
                end = session[-1]["t"] + self.kind.gap
                if self.kind.maximum is not None:
                    end = min(end, start + self.kind.maximum)
                found.append(((start, end, key), self._closes(session), session))
        return found

    def _sessions(self, events: list[Event]) -> list[list[Event]]:
        assert isinstance(self.kind, Session)
        found: list[list[Event]] = []
        for event in sorted(events, key=lambda each: each["t"]):
            if (
                not found
                or event["t"] - found[-1][-1]["t"] > self.kind.gap
                or (
                    self.kind.maximum is not None
                    and event["t"] - found[-1][0]["t"] >= self.kind.maximum
                )
            ):
                found.append([])
            found[-1].append(event)
        return found

    def _closes(self, session: list[Event]) -> int:
        assert isinstance(self.kind, Session)
        closes: int = session[-1]["t"] + self.kind.gap + 1
        if self.kind.maximum is None:
            return closes
        limit: int = session[0]["t"] + self.kind.maximum
        return min(closes, limit)
