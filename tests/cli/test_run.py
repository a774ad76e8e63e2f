"""`headrace run`: whose mistake it was, said in few lines, and a flow from a file."""

import json
import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Broker
from headrace.streams.running.lock import locked
from tests.cli.conftest import Headrace, process
from tests.streams.topics import Topics

SHOP = """
from headrace.streams import Flow

flow = Flow("shop")
orders = flow.stream("orders", "customer string, price double")
flow.topic("large-orders", orders.where("price >= 10"), key="customer")
"""

NO_SESSION = "[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession should be created first."
"""What PySpark says to whoever makes a function of SQL before Spark runs."""

SLOW_SHOP = """
from headrace.streams import Flow
from pyspark.sql.functions import udf
from pyspark.sql.types import DoubleType

@udf(DoubleType(), useArrow=False)
def slowly(price):
    import pathlib, time
    pathlib.Path("{directory}/inside").touch()
    while not pathlib.Path("{directory}/go-on").exists():
        time.sleep(0.02)
    return price

flow = Flow("shop")
orders = flow.stream("orders", "customer string, price double")
slow = orders.pipe(lambda rows: rows.withColumn("price", slowly("price")))
flow.topic("large-orders", slow, key="customer")
"""

FAILING_SHOP = """
from headrace.streams import Flow
from pyspark.sql.functions import udf
from pyspark.sql.types import DoubleType


@udf(DoubleType(), useArrow=False)
def inverse(price):
    return divided(1, price)


def divided(one, other):
    return one / other


flow = Flow("shop")
orders = flow.stream("orders", "customer string, price double")
flow.topic("large-orders", orders.pipe(lambda rows: rows.withColumn("i", inverse("price"))))
"""


@pytest.fixture
def topics() -> Iterator[Topics]:
    """The topics of a broker of the test's own, so that they can have the names in the file."""
    with Broker(flush="os") as broker:
        yield Topics(broker.bootstrap)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    return file


def wait_for(file: Path, running: "subprocess.Popen[str]") -> None:
    """Wait until a function that a flow runs has made a file."""
    while not file.exists():
        assert running.poll() is None, running.stderr and running.stderr.read()
        time.sleep(0.02)


def written(tmp_path: Path, code: str) -> str:
    (tmp_path / "flows.py").write_text(textwrap.dedent(code))
    return str(tmp_path / "flows.py")


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("print('hello')", "defines no flow; make one with Flow(name)"),
        ("from headrace.streams import Flow\nFlow('a')", "Flow a writes nothing; add an output"),
        ("1 +", "invalid syntax"),
        (
            "from headrace.streams import Flow\nFlow('a').stream('t', 'x int').select('y')",
            "flows.py line 2: select: there is no column y",
        ),
        (
            "from headrace.streams import Flow\nFlow('a').stream('t', 'x nope')",
            "flows.py line 2: ",
        ),
        (
            f"from pyspark.errors import *\nraise PySparkException('{NO_SESSION}')",
            "flows.py line 2: Spark is not running yet; it starts when a flow is run, or",
        ),
    ],
)
def test_a_file_that_cannot_be_run_is_told_why(
    headrace: Headrace, tmp_path: Path, code: str, complaint: str
):
    result = headrace("run", written(tmp_path, code))
    assert result.exit_code == 1
    assert result.stderr.startswith("headrace: ")
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_the_file_s_own_mistakes_are_shown_in_its_own_lines(headrace: Headrace, tmp_path: Path):
    code = """
        import json
        def load(text):
            return json.loads(text)
        load("?")
        """
    result = headrace("run", written(tmp_path, code))
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].endswith("flows.py failed:")
    assert [line.split(",")[1].strip() for line in lines if "File " in line] == ["line 5", "line 4"]
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")


def test_a_file_that_is_not_there_is_a_usage_error(headrace: Headrace):
    assert headrace("run", "nowhere.py").exit_code == 2


def test_a_flow_that_the_file_does_not_define_is_refused(headrace: Headrace, shop: Path):
    result = headrace("run", str(shop), "--flow", "shp")
    assert result.exit_code == 1
    assert "defines no flow shp; did you mean shop?" in result.stderr


def test_a_flow_that_runs_already_is_refused_before_spark_starts(
    headrace: Headrace, shop: Path, tmp_path: Path, topics: Topics
):
    topics.write("orders", {})
    with locked(tmp_path / "headrace-flows" / "shop", "shop"):
        result = headrace("run", str(shop), "-b", topics.bootstrap)
    assert result.exit_code == 1
    assert "Flow shop is running already, in process" in result.stderr
    assert "Spark 4" not in result.stderr


def test_a_checkpoint_of_another_query_is_refused_before_spark_starts(
    headrace: Headrace, shop: Path, tmp_path: Path, topics: Topics
):
    stored = {"version": 1, "flow": "shop", "output": "large-orders", "state": []}
    manifest = tmp_path / "flows" / "shop" / "large-orders" / "headrace.json"
    manifest.parent.mkdir(parents=True)
    other = {**stored, "sources": ["sales as json"], "sink": "topic large-orders"}
    manifest.write_text(json.dumps(other))
    result = headrace("run", str(shop), "-b", topics.bootstrap, "--checkpoints", "flows")
    assert result.exit_code == 1
    assert "reads orders as json now" in result.stderr
    assert "--rebuild as NAME" in result.stderr
    assert "Spark 4" not in result.stderr


@pytest.mark.parametrize("words", [("as", "v1"), ("v1",), ("as", "as"), ("as",), ("a/b",)])
def test_a_version_needs_a_sound_name(
    headrace: Headrace, shop: Path, topics: Topics, words: tuple[str, ...]
):
    result = headrace("run", str(shop), "-b", topics.bootstrap, "--rebuild", *words)
    assert result.exit_code == 1
    reasons = ("give the new version another name", "needs a name", "cannot be the name")
    assert any(each in result.stderr for each in reasons)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_file_is_run_until_it_is_told_to_stop(shop: Path, topics: Topics):
    pytest.importorskip("pyspark")
    topics.write("orders", {"customer": "ada", "price": 12}, {"customer": "bob", "price": 2})
    options = ("run", str(shop), "-b", topics.bootstrap, "--master", "local[2]")
    shop.write_text(f"{SHOP}\nprint('described', flush=True)\nflow.run()\nprint('ended')")
    with process(*options) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "described\n"
        assert running.stderr.readline() == "Starting Spark ...\n"
        assert running.stderr.readline().startswith("Spark 4.2.0")
        topics.await_records("large-orders", 1)
        topics.write("orders", {"customer": "eve", "price": 99})
        topics.await_records("large-orders", 2)
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "ended\n"), errors
    assert "shop.large-orders: stopped, 3 rows read, 2 written" in errors
    assert [key for key, _ in topics.read("large-orders")] == ["ada", "eve"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("number", "options", "code"),
    [
        (signal.SIGINT, (), 0),
        (signal.SIGTERM, ("--once",), 128 + signal.SIGTERM),
        (signal.SIGINT, ("--once",), 130),
    ],
)
def test_while_spark_starts_it_can_be_told_to_stop(
    shop: Path, topics: Topics, number: signal.Signals, options: tuple[str, ...], code: int
):
    pytest.importorskip("pyspark")
    topics.write("orders", {"customer": "ada", "price": 12})
    with process("run", str(shop), "-b", topics.bootstrap, *options) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "Starting Spark ...\n"
        running.send_signal(number)
        assert running.stderr.readline() == "Told to stop; nothing was started.\n"
        _, errors = running.communicate(timeout=120)
    assert running.returncode == code, errors
    assert len(errors.splitlines()) == (2 if options else 1), errors
    assert ("headrace: stopped before everything was read: shop.large-orders." in errors) is bool(
        options
    )
    assert "shop.large-orders: stopped, 0 rows read, 0 written" in errors
    assert not (shop.parent / "headrace-flows" / "shop" / "large-orders").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_signal_to_the_whole_process_group_lets_the_batch_be_finished(shop: Path, topics: Topics):
    pytest.importorskip("pyspark")
    topics.write("orders", {"customer": "ada", "price": 12})
    shop.write_text(SLOW_SHOP.format(directory=shop.parent))
    arguments = ("run", str(shop), "-b", topics.bootstrap, "--master", "local[2]")
    with process(*arguments, start_new_session=True) as running:
        wait_for(shop.parent / "inside", running)
        os.killpg(running.pid, signal.SIGTERM)
        assert running.stderr is not None
        while not running.stderr.readline().startswith("Told to stop: the batches that are run"):
            assert running.poll() is None
        (shop.parent / "go-on").touch()
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    *earlier, last = errors.splitlines()
    assert last.startswith("shop.large-orders: stopped, 1 row read, 1 written, batch 0 in ")
    # Where Spark takes long, the run says now and then how it is.
    assert set(earlier) <= {"shop.large-orders: running, 0 rows read, 0 written"}
    assert [key for key, _ in topics.read("large-orders")] == ["ada"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_function_that_fails_is_shown_in_its_own_lines(shop: Path, topics: Topics):
    pytest.importorskip("pyspark")
    topics.write("orders", {"customer": "ada", "price": 0})
    shop.write_text(FAILING_SHOP)
    (shop.parent / "headrace.toml").write_text('[streams]\ntries = 2\nbackoff = "1 ms"\n')
    with process("run", str(shop), "--once", "-b", topics.bootstrap) as running:
        _, errors = running.communicate(timeout=200)
    assert running.returncode == 1
    lines = errors.splitlines()
    failed = "shop.large-orders failed: ZeroDivisionError: float division by zero"
    (first,) = [place for place, line in enumerate(lines) if line.startswith(failed)]
    shown = [line.strip() for line in lines[first + 1 :] if "^" not in line]
    assert shown[:4] == [
        f'File "{shop}", line 9, in inverse',
        "return divided(1, price)",
        f'File "{shop}", line 13, in divided',
        "return one / other",
    ]
    assert lines[-1].startswith("headrace: shop.large-orders is given up after 2 tries")
    assert not [word for word in ("Traceback", "py4j", "site-packages", "java") if word in errors]
