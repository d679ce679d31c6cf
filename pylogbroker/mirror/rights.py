"""Rights that a mirror's user lacks in the target, as errors that name them."""

from __future__ import annotations

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.mirror.errors import MirrorError


def explained(error: PylogbrokerError, name: str) -> PylogbrokerError:
    """Return the error that names a missing right; another error as it is. `name` is that of group and transaction."""
    code = error.code if isinstance(error, KafkaError) else ErrorCode.NONE
    if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        right = f"to write and describe the transactional id {name} in the target; --at-least-once does without it"
    elif code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        right = f"to read and describe the group {name} in the target"
    elif code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        right = f"for a request to the cluster ({error})"
    else:
        return error
    return MirrorError(f"the mirror's user needs the right {right}")
