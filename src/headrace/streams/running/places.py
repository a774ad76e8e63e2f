"""Directories that checkpoints are in: of this machine, or of whatever Spark can write to."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.settings import StreamsSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


class Place(Protocol):
    """A directory with small text files."""

    @property
    def address(self) -> str:
        """How Spark and people call it."""
        ...

    def child(self, name: str) -> "Place":
        """A directory inside."""
        ...

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Make a file, all of it or nothing."""
        ...

    def names(self) -> list[str]:
        """What is in it, in no order; nothing if it is not there."""
        ...

    def remove(self) -> None:
        """Delete it with all that is in it."""
        ...


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A directory of this machine."""

    path: Path

    @property
    def address(self) -> str:
        """Its path."""
        return str(self.path)

    def child(self, name: str) -> "LocalPlace":
        """A directory inside."""
        return LocalPlace(self.path / name)

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Make a file that is there as a whole, and still is after a crash."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / f".{name}.new"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)

    def names(self) -> list[str]:
        """What is in it, in no order; nothing if it is not there."""
        return [each.name for each in self.path.iterdir()] if self.path.is_dir() else []

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path)


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """A directory in a file system that Spark knows: S3, HDFS and the like."""

    spark: "SparkSession"
    address: str

    def child(self, name: str) -> "SparkPlace":
        """A directory inside."""
        return SparkPlace(self.spark, f"{self.address.rstrip('/')}/{name}")

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        files, path = self._file(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Make a file; object stores show it when it is closed, as a whole."""
        files, path = self._file(name)
        stream = files.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def names(self) -> list[str]:
        """What is in it, in no order; nothing if it is not there."""
        files, path = self._file("")
        if not files.exists(path):
            return []
        return [each.getPath().getName() for each in files.listStatus(path)]

    def remove(self) -> None:
        """Delete it with all that is in it."""
        files, path = self._file("")
        files.delete(path, True)

    def _file(self, name: str) -> tuple[Any, Any]:
        """Java's file system, and the path in it."""
        java: Any = self.spark.sparkContext._jvm
        path = java.org.apache.hadoop.fs.Path(f"{self.address.rstrip('/')}/{name}".rstrip("/"))
        return path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), path


def root_of(settings: StreamsSettings, spark: "Callable[[], SparkSession]") -> Place:
    """Where all flows keep what they know; `spark` is called if only Spark can reach that."""
    if is_local(settings.checkpoints):
        return LocalPlace(Path(settings.checkpoints).expanduser().absolute())
    return SparkPlace(spark(), settings.checkpoints.rstrip("/"))


def is_local(checkpoints: str) -> bool:
    """Whether a setting names a directory of this machine, and not a URL."""
    return "://" not in checkpoints
