"""The example of home timelines tells its story, with all four rules."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.home_timeline import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_timelines_follow_posts_deletions_follows_and_unfollows(
    spark: "SparkSession", tmp_path: Path
):
    two, three, four = "two by Ada", "three by Grace", "four by Grace"
    assert [found for _, found in told(tmp_path)] == [
        {"Bob": [two, "one by Ada"]},
        {"Bob": [four, three, two]},
        {"Bob": [four, three, two], "Eve": [four, three]},
        {"Bob": [three, two, "one by Ada"], "Eve": [three]},
        {"Bob": [three], "Eve": [three]},
        {"Bob": [three], "Eve": [three]},
    ]
