"""The small language in which readers say which rows of a view they want, and in which order.

`language` makes a tree of a text, `ordering` of an order; `evaluating` says of a row in memory what
`sql` has a database say of its rows. Both must say the same, which is why comparisons are defined
here and not left to a database:

- A comparison of values of different kinds, or with null or a column that a row has not, is
  unknown, and unknown rows are not wanted. `and`, `or` and `not` treat unknown as SQL does.
- Texts are compared by code points, numbers by value, and false is less than true.
- In an order numbers come before texts, then booleans, then everything else; `desc` turns each kind
  around, and not the kinds.
"""

from headrace.views.filters.evaluating import matches
from headrace.views.filters.language import (
    And,
    Between,
    Column,
    Comparison,
    Filter,
    InvalidFilter,
    IsNull,
    Not,
    OneOf,
    Or,
    TextTest,
    columns_of,
    parse_filter,
)
from headrace.views.filters.ordering import Order, parse_order, sort_key

__all__ = [
    "And",
    "Between",
    "Column",
    "Comparison",
    "Filter",
    "InvalidFilter",
    "IsNull",
    "Not",
    "OneOf",
    "Or",
    "Order",
    "TextTest",
    "columns_of",
    "matches",
    "parse_filter",
    "parse_order",
    "sort_key",
]
