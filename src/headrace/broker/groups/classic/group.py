"""A group and how it moves from generation to generation.

`ClassicGroup` holds the state and every step that several requests can cause: members that come and
go, sessions that expire, the two halves of a rebalance. What a single request means in each state
is told in `joining` and `membership`.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.broker.groups.classic.member import Member
from headrace.broker.groups.classic.messages import Joined, JoinedMember, Synced
from headrace.broker.groups.classic.roster import Roster
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.classic.subscription import CONSUMER_PROTOCOL, subscribed_topics
from headrace.broker.groups.errors import GroupError, rebalance_in_progress, unknown_member
from headrace.broker.groups.messages import GroupKind
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import Deadline, Timers
from headrace.clock import Clock

log = logging.getLogger("headrace.broker")


class ClassicGroup:
    """One classic group: its members, its state and its current generation.

    `settled` is called whenever the group has become stable or empty.
    """

    kind: Final = GroupKind.CLASSIC

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        timers: Timers,
        settings: GroupSettings,
        settled: Callable[["ClassicGroup"], None],
    ) -> None:
        self.id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.state_since_ms = clock.now_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        """What kind of group this is; None if it never had members."""
        self.protocol_name: str | None = None
        """How the members of this generation share the work."""
        self.subscribed_topics: frozenset[str] | None = None
        """What the members read; None if that cannot be told from their metadata."""
        self.roster = Roster(group_id)
        self.pending: dict[str, Deadline] = {}
        """Member ids that were handed out and not used yet."""
        self._clock = clock
        self._timers = timers
        self._settled = settled
        self._unsynced: set[str] = set()
        self._join_deadline = Deadline(timers)
        self._sync_deadline = Deadline(timers)
        self._gathering = False
        self._newcomer_gathered = False

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members and is not forming a generation."""
        return self.state is GroupState.EMPTY

    @property
    def tells_topics(self) -> bool:
        """Whether it can be known which topics the members read."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def restore(self, protocol_type: str, generation: int, empty_since_ms: int) -> None:
        """Be the group that was known before the broker restarted, without its members."""
        self.protocol_type = protocol_type
        self.generation = generation
        self.state_since_ms = empty_since_ms
        self.subscribed_topics = self._read_subscriptions()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read a topic; a consumer group that cannot be read might."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL

    def dissolve(self, error: GroupError) -> None:
        """End the group: everybody who waits is sent away with the error."""
        self._enter(GroupState.DEAD)
        self._join_deadline.cancel()
        self._sync_deadline.cancel()
        for deadline in self.pending.values():
            deadline.cancel()
        self.pending.clear()
        for member in self.roster:
            self._dismiss(member, error)

    # Members

    def new_session(self) -> Deadline:
        """A deadline for a member's session."""
        return Deadline(self._timers)

    def expect(self, member_id: str, timeout_ms: int) -> None:
        """Hand out a member id, to be used within the timeout."""
        session = self.new_session()
        session.set(timeout_ms, partial(self.withdraw, member_id))
        self.pending[member_id] = session

    def withdraw(self, member_id: str) -> None:
        """Take back a member id that was handed out; nobody waits for it any longer."""
        self.pending.pop(member_id).cancel()
        self.advance()

    def admit(self, member: Member, protocol_type: str) -> None:
        """Add a newcomer, whose join waits for the next generation."""
        if not self.roster:
            self.protocol_type = protocol_type
        session = self.pending.pop(member.id, None)
        if session is not None:
            session.cancel()
        self.roster.add(member)
        self._newcomer_gathered = self._gathering
        # A newcomer whose client gives up and retries would stay as a member that never answers.
        self._start_session(member, self.settings.new_member_join_timeout_ms)
        self.rebalance(f"{member.id} joins")

    def replace(self, old: Member, new: Member, fence: GroupError) -> None:
        """Put a static member in the place of an earlier process with the same name."""
        self._dismiss(old, fence)
        self.roster.replace(old, new)
        if old.id in self._unsynced:
            self._unsynced.remove(old.id)
            self._unsynced.add(new.id)
        self.hear_from(new)

    def remove(self, member: Member) -> None:
        """Remove a member; whether that calls for a rebalance is the caller's business."""
        self._dismiss(member, unknown_member(self.id, member.id))
        self.roster.remove(member)
        self.mark_synced(member)

    def hear_from(self, member: Member) -> None:
        """A member has shown that it lives."""
        self._start_session(member, member.session_timeout_ms)

    def _start_session(self, member: Member, timeout_ms: int) -> None:
        member.session.set(timeout_ms, partial(self._session_expired, member))

    def _session_expired(self, member: Member) -> None:
        if member.excused:
            # A new session begins when the request that it waits with is answered.
            return
        self.remove(member)
        self.rebalance(f"{member.id} was not heard from in time")

    def _dismiss(self, member: Member, error: GroupError) -> None:
        member.session.cancel()
        member.joining.refuse(error)
        member.syncing.refuse(error)

    # First half of a rebalance: everybody joins

    def rebalance(self, reason: str) -> None:
        """Begin a rebalance or, if one is being prepared, see whether it can go on."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self.advance()
            return
        log.info("group %r: rebalance after generation %d: %r", self.id, self.generation, reason)
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.roster:
                member.assignment = b""
                if member.syncing.refuse(rebalance_in_progress(self.id)):
                    self.hear_from(member)
        self._unsynced.clear()
        self._sync_deadline.cancel()
        self._gathering = self.state is GroupState.EMPTY
        self._enter(GroupState.PREPARING_REBALANCE)
        if self._gathering:
            self._newcomer_gathered = False
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._gather(delay_ms, max(self.roster.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._join_deadline.set(self.roster.rebalance_timeout_ms, self._complete_join)
            self.advance()

    def advance(self) -> None:
        """Complete the join as soon as nobody is missing, except while a new group gathers."""
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and not self._gathering
            and not self.pending
            and self.roster.everyone_joined
        ):
            self._complete_join()

    def _gather(self, delay_ms: int, remaining_ms: int) -> None:
        self._join_deadline.set(delay_ms, partial(self._gathered, delay_ms, remaining_ms))

    def _gathered(self, delay_ms: int, remaining_ms: int) -> None:
        """Wait once more if somebody came in the meantime, but not beyond the rebalance timeout."""
        if self._newcomer_gathered and remaining_ms > 0:
            self._newcomer_gathered = False
            self._gather(min(delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        self._join_deadline.cancel()
        for member in self.roster:
            # A static member keeps its place until its session expires: it may be restarting.
            if not member.joining.waiting and not member.is_static:
                self.remove(member)
        if self.roster and not self.roster.elect_joined_leader():
            self._join_deadline.set(self.roster.rebalance_timeout_ms, self._complete_join)
            return
        self._gathering = False
        self.generation += 1
        if not self.roster:
            self._become_empty()
            return
        self.protocol_name = self.roster.elect_protocol()
        self.subscribed_topics = self._read_subscriptions()
        self._enter(GroupState.COMPLETING_REBALANCE)
        self._unsynced = {member.id for member in self.roster}
        self._sync_deadline.set(self.roster.rebalance_timeout_ms, self._sync_expired)
        for member in self.roster:
            member.is_new = False
            member.joining.answer(self.joined(member))
            self.hear_from(member)

    def joined(self, member: Member) -> Joined:
        """The current generation, as a member learns about it."""
        leads = member.id == self.roster.leader
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader or "",
            members=tuple(
                JoinedMember(each.id, each.instance_id, each.metadata(self.protocol_name))
                for each in self.roster
            )
            if leads
            else (),
        )

    # Second half of a rebalance: everybody learns its assignment

    def mark_synced(self, member: Member) -> None:
        """A member has asked for its assignment, or is gone; it is not waited for any longer."""
        self._unsynced.discard(member.id)
        if not self._unsynced:
            self._sync_deadline.cancel()

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Give every member what the leader decided; whoever it left out has nothing to do."""
        for member in self.roster:
            member.assignment = assignments.get(member.id, b"")
            if member.syncing.answer(self.synced(member)):
                self.hear_from(member)
        self._enter(GroupState.STABLE)
        log.info(
            "group %r: generation %d is stable with %d members",
            self.id,
            self.generation,
            len(self.roster),
        )
        self._settled(self)

    def synced(self, member: Member) -> Synced:
        """A member's assignment in the current generation."""
        return Synced(self.protocol_type, self.protocol_name, member.assignment)

    def _sync_expired(self) -> None:
        silent = [member for member in self.roster if member.id in self._unsynced]
        for member in silent:
            self.remove(member)
        self.rebalance(f"{', '.join(member.id for member in silent)} did not sync in time")

    def _become_empty(self) -> None:
        self.protocol_name = None
        self.subscribed_topics = self._read_subscriptions()
        self._enter(GroupState.EMPTY)
        self._settled(self)

    def _enter(self, state: GroupState) -> None:
        self.state = state
        self.state_since_ms = self._clock.now_ms()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.roster:
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            topics |= subscribed
        return topics
