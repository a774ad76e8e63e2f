"""Which configurations of a topic go together with an archive; the rules are Kafka's."""

from collections.abc import Mapping

from headrace.broker.topic_configs import LOCAL_AS_WHOLE, InvalidConfig

ENABLED = "remote.storage.enable"
COPY_DISABLED = "remote.log.copy.disable"
DELETE_ON_DISABLE = "remote.log.delete.on.disable"


def archives(values: Mapping[str, str]) -> bool:
    """Whether a topic with these effective values uses the archive."""
    return values.get(ENABLED) == "true"


def check_archiving(
    before: Mapping[str, str], after: Mapping[str, str], *, available: bool
) -> None:
    """Refuse effective values that do not go together, or do not follow those before."""
    if not archives(after):
        if archives(before) and after[DELETE_ON_DISABLE] != "true":
            raise InvalidConfig(
                f"{ENABLED} cannot become false while the archive has records of the topic: set "
                f"{DELETE_ON_DISABLE}=true with it to delete them, or keep it and set "
                f"{COPY_DISABLED}=true to archive nothing more"
            )
        return
    if not available:
        raise InvalidConfig(
            f"{ENABLED}=true needs an archive, and this broker has none: set broker.archive to "
            "its location and start the broker again"
        )
    if after["cleanup.policy"].strip() != "delete":
        raise InvalidConfig(f"{ENABLED}=true goes with cleanup.policy=delete only")
    for unit in ("bytes", "ms"):
        _check_local(unit, after)


def _check_local(unit: str, values: Mapping[str, str]) -> None:
    whole, local = int(values[f"retention.{unit}"]), int(values[f"local.retention.{unit}"])
    if local in (LOCAL_AS_WHOLE, whole):
        return
    if values[COPY_DISABLED] == "true":
        raise InvalidConfig(
            f"local.retention.{unit} must be that of retention.{unit} with {COPY_DISABLED}=true, "
            "since what leaves the local disk would be lost"
        )
    if whole >= 0 and (local < 0 or local > whole):
        raise InvalidConfig(
            f"Invalid value {local} for configuration local.retention.{unit}: it must not be "
            f"more than retention.{unit}, which is {whole}"
        )
