"""What the shop sells, to whom, and at which taxes: what is in its database when it opens."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True)
class Product:
    """One article; prices are whole cents, because money is not a float."""

    number: int
    name: str
    description: str
    price_cents: int

    @property
    def url(self) -> str:
        """The product's page."""
        return "/products/" + self.name.replace(" ", "-")


PRODUCTS: Final = tuple(
    Product(number, name, description, price_cents)
    for number, (name, price_cents, description) in enumerate(
        (
            ("trail running shoes", 11_900, "grip on mud and stones, for long runs in the hills"),
            ("road running shoes", 13_900, "light and soft, for long runs on asphalt"),
            ("walking shoes", 9_900, "leather, waterproof, for days with a rucksack"),
            ("rain jacket", 8_900, "waterproof and breathing, packs into its own pocket"),
            ("down jacket", 22_900, "warm and light, for winter nights in a tent"),
            ("wool socks", 1_490, "merino, warm even when wet"),
            ("running socks", 1_290, "thin, without seams"),
            ("tent for two", 34_900, "stands by itself, up in five minutes"),
            ("tent for four", 52_900, "room to stand, for families in the rain"),
            ("camping stove", 6_490, "burns petrol, boils a litre in four minutes"),
            ("gas stove", 4_990, "the smallest one, for a cup of tea on a summit"),
            ("head torch", 3_990, "bright enough to run by, red light for maps"),
            ("bicycle torch", 2_990, "for the handlebar, charges by cable"),
            ("sleeping bag", 18_900, "down, warm to minus ten degrees"),
            ("sleeping mat", 7_900, "filled with air, small when packed"),
            ("rucksack", 12_900, "forty litres, with a frame"),
        ),
        start=1,
    )
)

SEARCH_TERMS: Final = ("shoes", "jacket", "socks", "tent", "stove", "torch", "sleeping", "rucksack")
"""What visitors type; each finds a product."""

CITIES: Final = {
    "DE": ("Berlin", "Hamburg", "Leipzig"),
    "FR": ("Paris", "Lyon", "Nantes"),
    "GB": ("London", "Leeds", "Bristol"),
    "NL": ("Utrecht", "Delft", "Groningen"),
    "PL": ("Warsaw", "Gdansk", "Krakow"),
    "SE": ("Stockholm", "Malmo", "Uppsala"),
}
"""Where customers live, by country."""

TAX_PERCENT: Final = {"DE": 19, "FR": 20, "GB": 20, "NL": 21, "PL": 23, "SE": 25}
"""What is due at first; the back office changes it now and then."""

CUSTOMERS: Final = 200

_NAMES: Final = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Radia")


@dataclass(frozen=True, slots=True)
class Customer:
    """Somebody who has an account."""

    number: int
    name: str
    city: str
    country: str


def customers(seed: int = 7) -> Iterator[Customer]:
    """All customers; the same every time."""
    random = Random(seed)
    for number in range(1, CUSTOMERS + 1):
        country = random.choice(list(CITIES))
        name = f"{random.choice(_NAMES)} {chr(65 + number % 26)}."
        yield Customer(number, name, random.choice(CITIES[country]), country)


def find(term: str) -> tuple[Product, ...]:
    """Products whose name contains the term.

    >>> [product.name for product in find("tent")]
    ['tent for two', 'tent for four']
    """
    return tuple(product for product in PRODUCTS if term in product.name)
