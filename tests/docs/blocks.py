"""The code in Markdown files, and what its fence says about it."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of code.

    Its fence says the language and one more word: `python test_orders.py` or `text golden/a.txt`
    is that file of a project, `python skip` is not for running, and `python` alone is a piece of a
    session.
    """

    language: str
    word: str
    code: str
    line: int


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a file."""
    text = path.read_text()
    found = []
    for match in _FENCE.finditer(text):
        language, _, word = match["info"].strip().partition(" ")
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, word, match["code"], line))
    return found


def session(path: Path) -> str:
    """The plain Python blocks of a file as one program whose lines have the file's numbers."""
    lines: list[str] = []
    for block in blocks(path):
        if (block.language, block.word) == ("python", ""):
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines)


def commands(path: Path) -> list[str]:
    """The commands that console blocks show after a `$`."""
    return [
        line.removeprefix("$ ")
        for block in blocks(path)
        if block.language == "console"
        for line in block.code.splitlines()
        if line.startswith("$ ")
    ]
