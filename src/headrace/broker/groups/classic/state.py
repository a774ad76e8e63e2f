"""The states of a group."""

from enum import StrEnum


class GroupState(StrEnum):
    """Where a group stands between two generations.

    ```
                 join                  all have joined            leader has synced
        Empty ---------> Preparing ---------------------> Completing ----------> Stable
          ^               | ^  ^                              |                    |
          +---------------+ |  +------------------------------+                    |
           nobody is left   +------------------------------------------------------+
                                 join, leave, session expired, leader joins again
    ```

    The values are the names that clients show.
    """

    EMPTY = "Empty"
    """No members; the group may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """A new generation is announced and every member has to join it."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined; they wait for the leader's assignment."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """The group is deleted, or this coordinator has stopped."""
