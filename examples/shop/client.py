"""What all of the demo's Kafka clients have in common."""

ClientSettings = dict[str, str | int | float | bool]
"""Settings of a confluent-kafka client, by librdkafka's names."""

_CRITICAL_ONLY = 2


def client_settings(bootstrap: str, client_id: str) -> ClientSettings:
    """How to reach the cluster, and no chatter on the screen."""
    return {"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": _CRITICAL_ONLY}
