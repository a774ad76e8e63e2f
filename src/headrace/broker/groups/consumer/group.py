"""A consumer group: its epochs, its targets, and the deadlines of its members.

`ConsumerGroup` holds the state and every step that several requests can cause. What a heartbeat
means is told in `heartbeats`.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Claim
from headrace.broker.groups.consumer.member import ConsumerMember, Profile
from headrace.broker.groups.consumer.messages import ConsumerGroupState
from headrace.broker.groups.consumer.partitions import PartitionId, Share
from headrace.broker.groups.consumer.reconciliation import Holding, Phase, reconcile
from headrace.broker.groups.consumer.roster import ConsumerRoster
from headrace.broker.groups.consumer.stored import ConsumerGroupChanged, StoredMember
from headrace.broker.groups.consumer.subscriptions import Subscriptions
from headrace.broker.groups.consumer.topics import KnownTopics
from headrace.broker.groups.messages import GroupKind
from headrace.broker.groups.settings import ConsumerTimes
from headrace.broker.groups.timers import Deadline, Timers
from headrace.clock import Clock
from headrace.log.errors import LogError

log = logging.getLogger("headrace.broker")


class ConsumerGroup:
    """One consumer group.

    `times` tells the group's timeouts, which may change at any time; `store` writes a change to
    the journal and raises LogError if it cannot. What could not be stored is stored with the next
    change.
    """

    kind: Final = GroupKind.CONSUMER
    protocol_type: Final = "consumer"
    """What members of classic groups that read topics call their kind too."""
    tells_topics: Final = True

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        timers: Timers,
        topics: KnownTopics,
        times: Callable[[], ConsumerTimes],
        store: Callable[[ConsumerGroupChanged], None],
    ) -> None:
        self.id = group_id
        self.epoch = 1
        """Rises whenever the members, or what they read, change."""
        self.assignment_epoch = 0
        """The epoch that the members' targets are made for."""
        self.empty_since_ms: int | None = clock.now_ms()
        self.roster = ConsumerRoster()
        self._clock = clock
        self._timers = timers
        self._times = times
        self._store = store
        self._subscriptions = Subscriptions(topics)
        self._topics_version: int | None = None
        self._stored_epochs: tuple[int, int] | None = None

    def restore(self, stored: ConsumerGroupChanged) -> None:
        """Be the group that was known before the broker restarted, members and all.

        They cannot know that the broker was away, so that their sessions begin anew.
        """
        self.epoch = stored.epoch
        self.assignment_epoch = stored.assignment_epoch
        self.empty_since_ms = stored.empty_since_ms
        for member_id, each in stored.members.items():
            member = self.new_member(member_id)
            member.profile, member.holding, member.target = each.profile, each.holding, each.target
            self.roster.add(member)
            self.hear_from(member)
            self._watch_revocation(member)
        self.roster.changed.clear()
        self._stored_epochs = (self.epoch, self.assignment_epoch)

    def close(self) -> None:
        """Stop all clocks."""
        for member in self.roster:
            member.session.cancel()
            member.revocation.cancel()

    @property
    def times(self) -> ConsumerTimes:
        """The timeouts that hold for the group now."""
        return self._times()

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group has come."""
        if not self.roster:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in self.roster:
            holding = member.holding
            if holding.phase is not Phase.STABLE or holding.epoch != self.assignment_epoch:
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.roster

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer."""
        preferred = Counter(
            member.profile.assignor for member in self.roster if member.profile.assignor
        )
        return preferred.most_common(1)[0][0] if preferred else DEFAULT_ASSIGNOR

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read a topic."""
        return any(self._subscriptions.includes(each.profile, topic) for each in self.roster)

    # Members

    def new_member(self, member_id: str) -> ConsumerMember:
        """A member that has not told anything yet; it is not in the group."""
        return ConsumerMember(
            id=member_id, session=Deadline(self._timers), revocation=Deadline(self._timers)
        )

    def admit(self, member: ConsumerMember) -> None:
        """Add a newcomer."""
        self.roster.add(member)
        self.empty_since_ms = None
        log.info("group %r: %s joins after epoch %d", self.id, member.id, self.epoch)

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Put a static member's new process in the place of the one that left for a while."""
        self._dismiss(old)
        new.profile, new.target = old.profile, old.target
        new.holding = Holding(assigned=old.holding.assigned)
        self.roster.add(new)

    def remove(self, member: ConsumerMember, reason: str) -> None:
        """Let a member go; the others share what it had."""
        self._dismiss(member)
        self.epoch += 1
        log.info("group %r: %s goes: %s", self.id, member.id, reason)
        if not self.roster:
            self.empty_since_ms = self._clock.now_ms()

    def describe_as(self, member: ConsumerMember, profile: Profile) -> None:
        """A member has told something about itself; what it reads decides about a new epoch."""
        if profile == member.profile:
            return
        if not profile.reads_the_same_as(member.profile):
            self.epoch += 1
        member.profile = profile
        self.roster.touch(member)

    def hear_from(self, member: ConsumerMember) -> None:
        """A member has shown that it lives."""
        timeout_ms = self.times.session_timeout_ms
        member.session.set(timeout_ms, partial(self._expire, member, "it was not heard from"))

    def _dismiss(self, member: ConsumerMember) -> None:
        member.session.cancel()
        member.revocation.cancel()
        self.roster.remove(member)

    def _expire(self, member: ConsumerMember, reason: str) -> None:
        self.remove(member, f"{reason} in time")
        try:
            self.save()
        except LogError as error:
            # The next change is stored together with this one; until then a restart brings back
            # a member that is timed out again.
            log.warning("group %r: its state could not be stored: %s", self.id, error)

    # Targets

    def refresh(self) -> None:
        """See whether topics or partitions have come or gone since the target was made."""
        if self._topics_version == self._subscriptions.version:
            return
        self._topics_version = self._subscriptions.version
        if self.epoch == self.assignment_epoch and self._readable() != self._targeted():
            self.epoch += 1

    def assign(self) -> None:
        """Make the target of a new epoch."""
        if self.epoch == self.assignment_epoch:
            return
        topics = {
            member.id: self._subscriptions.topics_of(member.profile) for member in self.roster
        }
        claims = [
            Claim(
                member.id, frozenset(topics[member.id]), member.target, member.profile.instance_id
            )
            for member in self.roster
        ]
        everything = {
            topic: count for subscribed in topics.values() for topic, count in subscribed.items()
        }
        targets = ASSIGNORS[self.assignor](claims, everything)
        for member in self.roster:
            if targets[member.id] != member.target:
                member.target = targets[member.id]
                self.roster.touch(member)
        self.assignment_epoch = self.epoch

    def move_on(self, member: ConsumerMember, owned: Share | None) -> None:
        """Take a member one step towards its target."""
        before = member.holding
        after = reconcile(
            before,
            target=member.target,
            target_epoch=self.assignment_epoch,
            owned=owned,
            is_free=self.roster.is_free,
        )
        if after is not before:
            self.roster.hold(member, after)
            self._watch_revocation(member)

    def leave_for_a_while(self, member: ConsumerMember, epoch: int) -> None:
        """Keep a static member's place until its session expires."""
        member.revocation.cancel()
        away = replace(member.holding, epoch=epoch, phase=Phase.STABLE, revoking={})
        self.roster.hold(member, away)

    def _watch_revocation(self, member: ConsumerMember) -> None:
        if member.holding.phase is Phase.UNREVOKED:
            member.revocation.set(
                member.profile.rebalance_timeout_ms,
                partial(self._expire, member, "it did not give up its partitions"),
            )
        else:
            member.revocation.cancel()

    def _readable(self) -> set[PartitionId]:
        return {
            PartitionId(topic_id, number)
            for member in self.roster
            for topic_id, count in self._subscriptions.topics_of(member.profile).items()
            for number in range(count)
        }

    def _targeted(self) -> set[PartitionId]:
        return set().union(*(member.target for member in self.roster))

    # Storage

    def save(self) -> bool:
        """Store what has changed, if anything has, and tell whether.

        LogError if the disk refuses; it is tried again next time.
        """
        epochs = (self.epoch, self.assignment_epoch)
        if not (self.roster.changed or self.roster.gone) and epochs == self._stored_epochs:
            return False
        members = ((each, self.roster.get(each)) for each in sorted(self.roster.changed))
        self._store(
            ConsumerGroupChanged(
                self.id,
                *epochs,
                self.empty_since_ms,
                {
                    member_id: StoredMember(member.profile, member.holding, member.target)
                    for member_id, member in members
                    if member is not None
                },
                tuple(sorted(self.roster.gone)),
            )
        )
        self.roster.changed.clear()
        self.roster.gone.clear()
        self._stored_epochs = epochs
        return True
