"""A child process that obeys commands: how the tests drive clients that cannot live in pytest's process.

Fields are separated by tabs. A call is one line on the child's standard input; the answer is any number of
rows and an end, on its standard output:

    call    name  argument  argument ...
    row     =     field     field ...
    end     ok
            error code      message      (Kafka's number of the error, -1 when it is none of its)

Other lines (logging) are passed over.
"""

from __future__ import annotations

from tests.support.line_process import LineProcess


class RemoteError(Exception):
    """The child answered with an error: Kafka's code of it, and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code
        self.message = message


class RpcProcess(LineProcess):
    def call(self, name: str, *arguments: object, timeout: float = 180) -> list[list[str]]:
        """The rows of the answer; RemoteError when it is an error."""
        self.send("\t".join([name, *map(str, arguments)]))
        rows: list[list[str]] = []
        while True:
            fields = self.expect(r"^(?:=|ok|error)(?:\t|$)", timeout).string.split("\t")
            if fields[0] == "=":
                rows.append(fields[1:])
            elif fields[0] == "ok":
                return rows
            else:
                raise RemoteError(int(fields[1]), fields[2])
