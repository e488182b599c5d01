"""A proxy that holds event streams back until 64 KiB have come together or the server ends them, as proxies that
scan or compress what passes do; everything else passes as it comes. `head` lets the answer's head through at once,
`nothing` holds that back too.

    python holding_proxy.py head|nothing LISTEN_PORT SERVER_PORT
"""

import asyncio
import sys

HELD_BYTES = 64 << 10


async def upward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


async def downward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head_passes: bool) -> None:
    held, holding = b"", False
    while chunk := await reader.read(65_536):
        if not holding and b"content-type: text/event-stream" in chunk.lower():
            holding = True
            if head_passes:
                head, end, chunk = chunk.partition(b"\r\n\r\n")
                writer.write(head + end)
        held += chunk
        if not holding or len(held) >= HELD_BYTES:
            writer.write(held)
            held = b""
        await writer.drain()
    writer.write(held)
    await writer.drain()
    writer.close()


async def main(passes: str, listen: int, server: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", server)
            both = upward(reader, to_server), downward(from_server, writer, passes == "head")
            await asyncio.gather(*both)
        except OSError:
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", listen)
    print("ready", flush=True)
    await listener.serve_forever()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
