"""How commands speak: aligned tables, and colour only where it is wanted."""

import io
import sys

import pytest

from headrace.cli.output import print_facts, print_table, wants_colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_numbers_stand_to_the_right_and_nothing_is_a_dash(capsys: pytest.CaptureFixture[str]):
    print_table(("NAME", "COUNT"), [("a", 5), ("longer", 1234), ("none", None)])
    assert capsys.readouterr().out == (
        "NAME    COUNT\n"
        "a           5\n"
        "longer   1234\n"
        "none        -\n"
    )  # fmt: skip


def test_facts_are_aligned(capsys: pytest.CaptureFixture[str]):
    print_facts({"Topic": "orders", "Id": None})
    assert capsys.readouterr().out == "Topic  orders\nId     -\n"


def test_headings_are_faint_in_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(("NAME",), [("a",)])
    assert terminal.getvalue() == "\x1b[2mNAME\x1b[0m\na\n"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
