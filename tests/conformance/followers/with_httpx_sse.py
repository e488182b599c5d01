"""Follows a stream with Python's httpx-sse: prints each message's data as a line.

httpx-sse reads one connection; resuming is its user's part, with the id of the last message.
"""

import os
import ssl
import sys
import time

import httpx
from httpx_sse import connect_sse


def main(url: str) -> None:
    headers = {"Authorization": f"Bearer {os.environ['TEAMLAMP_TOKEN']}"}
    authority = os.environ.get("SSL_CERT_FILE")
    verify = ssl.create_default_context(cafile=authority) if authority else True
    retry_ms = 1000
    # No byte for 40 s is a drop: the server sends a comment every 15 s.
    with httpx.Client(headers=headers, timeout=httpx.Timeout(10, read=40), verify=verify) as client:
        last = ""
        while True:
            resumption = {"Last-Event-ID": last} if last else {}
            try:
                with connect_sse(client, "GET", url, headers=resumption) as stream:
                    # Behind a proxy 502 is a server that is being started again.
                    if stream.response.status_code < 500:
                        stream.response.raise_for_status()
                        print('{"opened":true}', flush=True)
                        for message in stream.iter_sse():
                            last = message.id or last
                            retry_ms = message.retry if message.retry is not None else retry_ms
                            if message.data:
                                sys.stdout.buffer.write(message.data.encode() + b"\n")
                                sys.stdout.buffer.flush()
            except httpx.TransportError:
                pass
            time.sleep(retry_ms / 1000)


main(sys.argv[1])
