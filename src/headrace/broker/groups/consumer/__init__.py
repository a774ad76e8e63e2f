"""Groups whose work the coordinator shares out (KIP-848): nobody stops while others come and go.

A group has an epoch that rises whenever its members or what they read change; every epoch has a
target, the partitions that each member should have (`assignors`). Members move towards it one by
one, with their heartbeats (`heartbeats`): each gives up what it should not have, and is given what
nobody else has (`reconciliation`). `group` ties these together, `stored` is how a group survives a
restart.
"""
