"""The [kafka] section: which Kafka cluster the tools and the upper half talk to."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.settings.address import Addresses
from headrace.settings.kinds import Properties
from headrace.settings.sections import Section, setting


@dataclass(frozen=True, slots=True)
class KafkaSettings(Section):
    """A cluster that speaks the Kafka protocol: a Headrace broker or an Apache Kafka cluster."""

    bootstrap: str = setting(
        Addresses(), "127.0.0.1:9092", "Addresses to find the cluster by, separated by commas."
    )
    properties: Mapping[str, str] = setting(
        Properties(), {}, "Properties handed to librdkafka, such as security.protocol."
    )
