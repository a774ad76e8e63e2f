"""The pictures in the chapter on joins are what the code draws."""

from pathlib import Path

import pytest

from examples.join_pictures import PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_operators_say_today(name: str, pytestconfig: pytest.Config):
    kept = Path(pytestconfig.rootpath, "docs", "images", name).read_text(encoding="utf-8")
    assert PICTURES[name]() == kept, "draw it anew: python -m examples.join_pictures docs/images"
