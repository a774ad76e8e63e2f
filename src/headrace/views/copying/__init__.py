"""A topic's rows kept in a store, exactly once, without Spark.

    from headrace.views.copying import Copy

    with Copy("orders", to="postgresql://shop@localhost/shop", key=["id"],
              schema="id bigint, customer string, total double"):
        ...

`reading` makes rows of a partition's records, `session` is one attempt to copy: it claims the lanes
of all partitions and goes on where they are. `running` starts sessions again, with pauses.
"""

from headrace.views.copying.copy import Copy
from headrace.views.copying.errors import CopyError, InvalidCopy
from headrace.views.copying.progress import Condition, CopyProgress

__all__ = ["Condition", "Copy", "CopyError", "CopyProgress", "InvalidCopy"]
