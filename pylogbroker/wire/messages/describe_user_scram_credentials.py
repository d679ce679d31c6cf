"""DescribeUserScramCredentials (key 50): which mechanisms of SCRAM users have credentials for."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import ErrorText, Int8, Int16, Int32, Request, Response, String, fresh, struct


@struct
class UserName:
    name: String = ""


@struct
class DescribeUserScramCredentialsRequest(Request):
    """Null, or an empty list, asks for all users."""

    api_key, versions = APIS["describe_user_scram_credentials"]

    users: list[UserName] | None = fresh(list)


@struct
class CredentialInfo:
    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    credential_infos: list[CredentialInfo] = fresh(list)


@struct
class DescribeUserScramCredentialsResponse(Response):
    api_key, versions = APIS["describe_user_scram_credentials"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    results: list[DescribeUserScramCredentialsResult] = fresh(list)
