"""How the transaction coordinator refuses a request."""

from kio.schema.errors import ErrorCode

from headrace.errors import HeadraceError


class TransactionError(HeadraceError):
    """A request about a transaction that is refused; `code` is what the client is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def unknown_producer(transactional_id: str, producer_id: int) -> TransactionError:
    """The producer id is not the one that belongs to the transactional id."""
    return TransactionError(
        ErrorCode.invalid_producer_id_mapping,
        f"transactional id {transactional_id!r} does not belong to producer {producer_id}; "
        "initialize the producer again",
    )


def fenced(transactional_id: str, epoch: int, current: int) -> TransactionError:
    """Another instance has taken over, or the transaction timed out and was aborted."""
    return TransactionError(
        ErrorCode.producer_fenced,
        f"transactional id {transactional_id!r} is in epoch {current} by now, not {epoch}: another "
        "instance took over or the transaction timed out; stop this producer",
    )


def still_ending(transactional_id: str) -> TransactionError:
    """The previous transaction is being committed or aborted."""
    return TransactionError(
        ErrorCode.concurrent_transactions,
        f"the previous transaction of {transactional_id!r} is still being ended; try again",
    )


def invalid_state(transactional_id: str, problem: str) -> TransactionError:
    """The transaction is not in a state in which this could be done."""
    return TransactionError(
        ErrorCode.invalid_txn_state, f"transactional id {transactional_id!r} {problem}"
    )


def not_part(transactional_id: str, what: str) -> TransactionError:
    """Something was written that had not been added to an open transaction."""
    return TransactionError(
        ErrorCode.transaction_abortable,
        f"transactional id {transactional_id!r} has no open transaction with {what}; abort and "
        "begin again",
    )


def nameless() -> TransactionError:
    """A request names no transactional id."""
    return TransactionError(ErrorCode.invalid_request, "a transactional id is not empty")


def not_available(problem: object) -> TransactionError:
    """The disk refused; the client asks again later."""
    return TransactionError(ErrorCode.coordinator_not_available, str(problem))
