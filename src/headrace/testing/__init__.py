"""Tests with Headrace: `plugin` has the pytest fixtures, `apache_kafka` runs the real thing.

`harness` runs flows step by step without a cluster, `golden` does so with events and rows that are
written in text files, and `sink_contract` has the tests that every sink passes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.golden import GoldenCase, check_golden, golden_cases
    from headrace.testing.harness.collected import Record
    from headrace.testing.harness.crashes import KillPoint
    from headrace.testing.harness.flow_harness import FlowHarness

__all__ = [
    "FlowHarness",
    "GoldenCase",
    "KillPoint",
    "Record",
    "check_golden",
    "golden_cases",
]

_HOMES = {
    "FlowHarness": "harness.flow_harness",
    "GoldenCase": "golden",
    "KillPoint": "harness.crashes",
    "Record": "harness.collected",
    "check_golden": "golden",
    "golden_cases": "golden",
}


def __getattr__(name: str) -> object:
    # Imported when first used: pytest loads the plugin in every run of every project.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"headrace.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
