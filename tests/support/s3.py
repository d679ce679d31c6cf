"""A store with the protocol of S3, on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
from moto.server import ThreadedMotoServer

KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Environment of those who use the store."""

BUCKET: Final = "archive"
_REGION: Final = "us-east-1"


@attrs.frozen
class S3Store:
    address: str

    @property
    def place(self) -> str:
        """The setting `remote.log.storage` of the store."""
        return f"s3://{BUCKET}/logs?endpoint_override={self.address}&scheme=http&region={_REGION}"

    @property
    def client(self) -> object:
        import boto3

        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        return boto3.client("s3", endpoint_url=f"http://{self.address}", region_name=_REGION, **keys)

    def names(self) -> list[str]:
        """Return the names of all objects below the prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)  # type: ignore[attr-defined]
        return [item["Key"].removeprefix("logs/") for page in pages for item in page.get("Contents", [])]


@contextmanager
def running_s3() -> Iterator[S3Store]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = S3Store(f"{host}:{port}")
        store.client.create_bucket(Bucket=BUCKET)  # type: ignore[attr-defined]
        yield store
    finally:
        server.stop()
