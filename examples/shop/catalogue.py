"""What the shop sells."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """One article; prices are whole cents, because money is not a float."""

    name: str
    price_cents: int

    @property
    def url(self) -> str:
        """The product's page."""
        return "/products/" + self.name.replace(" ", "-")


PRODUCTS = tuple(
    Product(name, price_cents)
    for name, price_cents in (
        ("trail running shoes", 11_900),
        ("road running shoes", 13_900),
        ("rain jacket", 8_900),
        ("down jacket", 22_900),
        ("wool socks", 1_490),
        ("running socks", 1_290),
        ("tent for two", 34_900),
        ("tent for four", 52_900),
        ("camping stove", 6_490),
        ("gas stove", 4_990),
        ("head torch", 3_990),
        ("bicycle torch", 2_990),
    )
)

SEARCH_TERMS = ("shoes", "jacket", "socks", "tent", "stove", "torch")
"""What visitors type; each finds at least two products."""


def find(term: str) -> tuple[Product, ...]:
    """Products whose name contains the term.

    >>> [product.name for product in find("tent")]
    ['tent for two', 'tent for four']
    """
    return tuple(product for product in PRODUCTS if term in product.name)
