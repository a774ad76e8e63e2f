"""ApiVersions: which APIs and features there are, and in which versions."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.features import FEATURES, FEATURES_EPOCH
from headrace.broker.protocol import Call

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_WITH_FEATURES = 3
"""The version from which on the reply tells what the cluster has agreed on."""

FIRST_WITH_LEVEL_0 = 4
"""The version from which on features that can be switched off are told."""


def api_versions(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Answer with every API that the broker serves."""
    return supported(call, ErrorCode.none)


def supported(call: Call, error: ErrorCode) -> Any:
    """The list of APIs, with an error code where the client's own version is unknown."""
    # Imported here, because the table of APIs names this module's handler.
    from headrace.broker.apis import APIS

    return call.reply.ApiVersionsResponse(
        error_code=error,
        api_keys=tuple(
            call.reply.ApiVersion(
                api_key=api.key,
                min_version=api.first if api.advertised_first is None else api.advertised_first,
                max_version=api.last,
            )
            for api in APIS.values()
        ),
        supported_features=tuple(
            call.reply.SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in FEATURES.items()
        )
        # Clients of older versions take a first level of 0 for an error.
        if call.version >= FIRST_WITH_LEVEL_0
        else (),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=tuple(
            call.reply.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in FEATURES.items()
        )
        if call.version >= FIRST_WITH_FEATURES
        else (),
    )
