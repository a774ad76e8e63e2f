"""What clients may do with things, as sets of bits: everything, while there are no access rules."""

from functools import reduce
from operator import or_

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (1 << code for code in range(3, 9))
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    1 << code for code in range(9, 13)
)

TOPIC_OPERATIONS = reduce(
    or_, (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
)
"""All that can be done with a topic."""

CLUSTER_OPERATIONS = reduce(
    or_,
    (CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE),
)
"""All that can be done with the cluster."""

GROUP_OPERATIONS = reduce(or_, (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
"""All that can be done with a group."""

NOT_ASKED_FOR = -(1 << 31)
"""In place of the operations, for a client that does not ask for them."""
