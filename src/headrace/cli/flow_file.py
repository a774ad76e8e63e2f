"""A file with flows, executed as the program that it is, and its mistakes shown as its own."""

import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.streams.errors import InvalidFlow
from headrace.streams.formats import FormatError
from headrace.streams.launch import Launch, launching
from headrace.streams.names import did_you_mean
from headrace.streams.running import run_all
from headrace.streams.running.failures import root_cause

_NO_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"
_TOO_EARLY = (
    "Spark is not running yet; it starts when a flow is run, or when flow.spark is first used. Do "
    "this in the function that is given to pipe, or say flow.spark before. Of a function of your "
    "own, a type such as DoubleType() instead of 'double' will do."
)


class FlowFileFailed(HeadraceError):
    """The file raised something; the message shows where, in its own lines only."""


def run_flow_file(file: Path, launch: Launch) -> None:
    """Execute a file and run its flows, unless it does so itself."""
    with launching(launch):
        _execute(file)
    if launch.started:
        return
    if not launch.flows:
        raise FlowFileFailed(
            f"{file} defines no flow; make one with Flow(name) at the top level of the file."
        )
    wanted = [flow for flow in launch.flows if launch.wants(flow)]
    if not wanted:
        hint = did_you_mean(str(launch.flow), [flow.name for flow in launch.flows])
        raise FlowFileFailed(f"{file} defines no flow {launch.flow}; {hint}")
    _reduced(lambda: run_all(wanted, launch), file)


def _execute(file: Path) -> None:
    arguments, path = sys.argv, list(sys.path)
    sys.argv = [str(file)]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        _reduced(lambda: runpy.run_path(str(file), run_name="__main__"), file)
    finally:
        sys.argv, sys.path[:] = arguments, path


def _reduced(action: Callable[[], object], file: Path) -> None:
    """Do it, and raise what goes wrong in the fewest lines that say it all."""
    try:
        action()
    except SyntaxError as error:
        said = traceback.format_exception_only(error)
        raise FlowFileFailed("".join(said).strip()) from None
    except (InvalidFlow, FormatError) as error:
        raise FlowFileFailed(f"{_place(error, file)}{error}") from None
    except HeadraceError:
        raise
    except Exception as error:
        raise _failed(error, file) from None


def _failed(error: Exception, file: Path) -> FlowFileFailed:
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        said = root_cause(error).message
        return FlowFileFailed(f"{_place(error, file)}{_TOO_EARLY if _NO_SESSION in said else said}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _own(frame, file)]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return FlowFileFailed(f"{file} failed:\n{''.join(lines).rstrip()}")


def _place(error: Exception, file: Path) -> str:
    """The innermost line of the user's own code, if the error came through any."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _own(frame, file)]
    return f"{frames[-1].filename} line {frames[-1].lineno}: " if frames else ""


def _own(frame: traceback.FrameSummary, file: Path) -> bool:
    """Whether a frame is of the file or of what lies beside it, and not of a library."""
    if frame.filename.startswith("<") or "site-packages" in frame.filename:
        return False
    return Path(frame.filename).resolve().is_relative_to(file.resolve().parent)
