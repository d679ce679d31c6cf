"""`python -m tests.net.half_open TLS_PORT SASL_PORT COUNT PER_SECOND`: clients that stop in the middle of a handshake.

A quarter of them each send nothing, one byte, a whole ClientHello, or SaslHandshake and the first message of SCRAM.
Each of 20 loopback addresses has its share. Prints `opened` when all are connected, then `ended` when the broker has
closed all of them.
"""

from __future__ import annotations

import select
import socket
import ssl
import sys
import time
from typing import Final

from pylogbroker.wire import Request, request_codec
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest

ADDRESSES: Final = 20
HOST: Final = "127.0.0.1"


def client_hello() -> bytes:
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("the handshake needs no server")


def framed(request: Request, version: int) -> bytes:
    return b"".join(map(bytes, request_codec(request.api_key, version).frame(1, "half", request)))


def connections(tls_port: int, sasl_port: int, count: int, per_second: float) -> list[socket.socket]:
    authentication = framed(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
    authentication += framed(SaslAuthenticateRequest(b"n,,n=alice,r=abcdefgh"), 2)
    kinds = (tls_port, b""), (tls_port, b"\x16"), (tls_port, client_hello()), (sasl_port, authentication)
    opened, begin = list[socket.socket](), time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number / per_second - time.monotonic()))
        port, sent = kinds[number % len(kinds)]
        address = f"127.0.1.{number // len(kinds) % ADDRESSES + 1}"
        each = socket.create_connection((HOST, port), 120, (address, 0))
        each.sendall(sent)
        opened.append(each)
    return opened


def wait_for_the_end(opened: list[socket.socket]) -> None:
    """Return when each has been closed by the broker."""
    poll, left = select.poll(), {each.fileno(): each for each in opened}
    for number, each in left.items():
        each.setblocking(False)
        poll.register(number, select.POLLIN)
    while left:
        for number, _ in poll.poll():
            try:
                is_over = not left[number].recv(65536)
            except ConnectionResetError:
                is_over = True
            if is_over:
                poll.unregister(number)
                del left[number]


if __name__ == "__main__":
    tls, sasl, wanted, rate = map(int, sys.argv[1:])
    half_open = connections(tls, sasl, wanted, rate)
    print("opened", flush=True)
    wait_for_the_end(half_open)
    print("ended", flush=True)
