"""Network addresses as settings: "HOST:PORT", with brackets around an IPv6 host; and URLs."""

import re


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address; ValueError says what a good one looks like.

    >>> split_address("127.0.0.1:9092"), split_address("[::1]:0")
    (('127.0.0.1', 9092), ('::1', 0))
    """
    host, _, port = address.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or not (port.isascii() and port.isdigit()):
        raise ValueError(f'"{address}" is not HOST:PORT, as in "127.0.0.1:9092"')
    if int(port) > 65535:
        raise ValueError(f'"{address}" has port {port}, and the highest port there is is 65535')
    if ":" in host and not bracketed:
        raise ValueError(f'"{address}" needs brackets around the IPv6 host, as in "[::1]:9092"')
    return (host[1:-1] if bracketed else host), int(port)


def join_address(host: str, port: int) -> str:
    """The address of a host and a port.

    >>> join_address("localhost", 9092), join_address("::1", 0)
    ('localhost:9092', '[::1]:0')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown(url: str) -> str:
    """A URL without its password.

    >>> shown("postgresql://shop:secret@localhost/shop")
    'postgresql://shop:***@localhost/shop'
    """
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


class Address:
    """One HOST:PORT; port 0 asks the system for a free one."""

    def parse(self, raw: object) -> str:
        """The address, as text."""
        return self.accept(raw).strip()

    def accept(self, value: object) -> str:
        """Refuse what is not HOST:PORT."""
        address = str(value)
        split_address(address)
        return address


class Addresses:
    """One HOST:PORT or several, separated by commas."""

    def parse(self, raw: object) -> str:
        """The addresses, as text without blanks."""
        return "".join(self.accept(raw).split())

    def accept(self, value: object) -> str:
        """Refuse a list in which one is not HOST:PORT with a port to connect to."""
        addresses = str(value)
        for address in addresses.split(","):
            _, port = split_address(address)
            if port == 0:
                raise ValueError(f'"{address}" has port 0, which nobody can connect to')
        return addresses
