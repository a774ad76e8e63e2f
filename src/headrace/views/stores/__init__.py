"""What rows can be kept in: databases, caches, search indexes and files, each exactly once.

`contract` is what a store promises; `changes` and `staging` are how rows come to it, `kinds` and
`columns` what they are made of. `relational` is what all stores with SQL have in common. A new
store is a module beside them and a line in `locating`, and proves itself by passing
`headrace.testing.store_contract`.
"""

from headrace.views.stores.contract import (
    Claim,
    Lane,
    Position,
    Refusal,
    Refuse,
    Session,
    Shape,
    Store,
)
from headrace.views.stores.errors import (
    ClaimLost,
    ColumnsRefused,
    InvalidStore,
    PositionsLost,
    RowRefused,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.locating import store_of

__all__ = [
    "Claim",
    "ClaimLost",
    "ColumnsRefused",
    "InvalidStore",
    "Lane",
    "Position",
    "PositionsLost",
    "Refusal",
    "Refuse",
    "RowRefused",
    "Session",
    "Shape",
    "Store",
    "StoreError",
    "StoreRefused",
    "StoreUnreachable",
    "store_of",
]
