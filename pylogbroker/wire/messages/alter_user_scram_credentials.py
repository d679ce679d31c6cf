"""AlterUserScramCredentials (key 51): set and delete credentials of users for mechanisms of SCRAM."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Bytes,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class ScramCredentialDeletion:
    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion:
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@struct
class AlterUserScramCredentialsRequest(Request):
    api_key, versions = APIS["alter_user_scram_credentials"]

    deletions: list[ScramCredentialDeletion] = fresh(list)
    upsertions: list[ScramCredentialUpsertion] = fresh(list)


@struct
class AlterUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: ErrorText | None = ""


@struct
class AlterUserScramCredentialsResponse(Response):
    api_key, versions = APIS["alter_user_scram_credentials"]

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = fresh(list)
