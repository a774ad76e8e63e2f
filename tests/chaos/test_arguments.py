"""What `make chaos` accepts, and what it refuses before anything is started."""

import pytest

from tests.chaos.__main__ import parse_arguments


def test_faults_and_seconds_are_taken_as_written():
    arguments = parse_arguments(["--faults", "kill,halt", "--seconds", "5"])
    assert arguments.faults == ("kill", "halt")
    assert arguments.seconds == 5


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--faults", "kil"], "there is no fault kil; there are kill, halt, clock"),
        (["--faults", "kill,clock", "--apache-kafka"], "can only be given kill,halt"),
        (["--seconds", "2"], "2 is too short; say 5 or more"),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
