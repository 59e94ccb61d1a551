"""Frames of web sockets as bytes, for what a client's library would not send."""

import base64
import json
import socket

CONTINUED, TEXT, CLOSE, PING = 0, 1, 8, 9
_MASK = bytes(4)  # a mask of zeros leaves the bytes as they are
CONFIGURE = {"type": "configure", "targets": [{"link": "panda_hand"}], "options": {"seeds": 4}}


def frame(opcode: int, data: bytes = b"", *, is_last: bool = True) -> bytes:
    """A frame of a client with up to 65535 bytes."""
    first = bytes([(0x80 if is_last else 0) | opcode])
    length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return first + length + _MASK + data


def configuration() -> bytes:
    """The first message of a stream."""
    return frame(TEXT, json.dumps(CONFIGURE).encode())


def handshake(connection: socket.socket, *fields: str, robot: str = "panda") -> bytes:
    """Open a stream on a connection; return the head of the answer."""
    lines = [f"GET /v1/robots/{robot}/stream HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade", "Upgrade: websocket"]
    lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}", *fields]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        head += byte
    return head


def rest(connection: socket.socket) -> bytes:
    """Everything that comes until the service closes the connection."""
    data = b""
    try:
        while chunk := connection.recv(65536):
            data += chunk
    except (ConnectionResetError, BrokenPipeError):
        pass
    return data


def closed_with(data: bytes) -> int:
    """The code of the close frame at the end of what came; 0 where there is none."""
    for place in range(len(data) - 1, -1, -1):
        if data[place] == 0x80 | CLOSE and len(data) == place + 2 + data[place + 1]:
            return int.from_bytes(data[place + 2 : place + 4], "big")
    return 0
