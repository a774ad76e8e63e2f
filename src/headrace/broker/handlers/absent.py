"""What tools ask about and this broker does not have: there is none of it, and that is no error."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore


def describe_client_quotas(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Nobody has a quota."""
    return call.reply.DescribeClientQuotasResponse(
        error_code=ErrorCode.none, error_message=None, entries=()
    )


def describe_user_scram_credentials(core: "BrokerCore", request: Any, call: Call) -> Any:
    """There are no users; whoever is asked for by name is not found."""
    return call.reply.DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            call.reply.DescribeUserScramCredentialsResult(
                user=user.name,
                error_code=ErrorCode.resource_not_found,
                error_message=f"there is no user {user.name!r}",
                credential_infos=(),
            )
            for user in request.users or ()
        ),
    )
