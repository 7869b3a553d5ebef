"""`python -m tests.assistant.model_server`: a scripted OpenAI-compatible server.

Standard library only: the driver starts it with `-S`. It prints its port, and ends when its input is closed.

`POST /script` takes a list of behaviours and `POST /reset` an empty object; `GET /requests` returns what was
asked since the last reset. Each completion request uses one behaviour, an object with any of:

    text     the answer; a stream sends it in about four pieces
    calls    tool calls, each an object with `name`, `arguments` (text, valid JSON or not) and `id`
    usage    the total of tokens
    fault    "stall_first": nothing arrives; "stall_middle", "drop", "unfinished": the first piece of a stream
    raw      the data of each event of a stream, as it is; replaces all of the above
    status   an HTTP error, with `body` and `headers`; replaces all of the above
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
NO_SCRIPT = "No script."
_PIECES = 4
_STALL_S = 120.0

Json = dict[str, Any]


def _events(behaviour: Json) -> list[str]:
    """Return the data of each server-sent event."""
    if "raw" in behaviour:
        return list(behaviour["raw"])
    calls = _calls(behaviour)
    deltas = [{"content": piece} for piece in _pieces(behaviour.get("text", ""))] + _call_deltas(calls)
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    reason = "tool_calls" if calls else "stop"
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if "usage" in behaviour:
        chunks.append({"choices": [], "usage": {"total_tokens": behaviour["usage"]}})
    return [*map(json.dumps, chunks), "[DONE]"]


def _completion(behaviour: Json) -> Json:
    """Return the answer to a request that does not ask for a stream."""
    calls = _calls(behaviour)
    message = {"role": "assistant", "content": behaviour.get("text"), "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"choices": [choice], "usage": {"total_tokens": behaviour.get("usage", 0)}}


def _calls(behaviour: Json) -> list[Json]:
    calls = []
    for number, call in enumerate(behaviour.get("calls", [])):
        function = {"name": call["name"], "arguments": call["arguments"]}
        calls.append({"id": call.get("id", f"call_{number}"), "type": "function", "function": function})
    return calls


def _call_deltas(calls: Sequence[Json]) -> list[Json]:
    """Return the first halves of all calls, then the second halves of their arguments."""
    begun, rest = [], []
    for index, call in enumerate(calls):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        half = len(arguments) // 2
        begun.append({**call, "index": index, "function": {"name": name, "arguments": arguments[:half]}})
        rest.append({"index": index, "function": {"arguments": arguments[half:]}})
    return [{"tool_calls": [delta]} for delta in begun + rest]


def _pieces(text: str) -> list[str]:
    size = max(1, len(text) // _PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._send(200, self.server.requests if self.path == "/requests" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if self.path == "/v1/chat/completions":
            with suppress(OSError):  # a client that stopped waiting has closed the connection
                self._complete(body)
        elif self.path == "/script":
            self.server.script = body
            self._send(200, {})
        elif self.path == "/reset":
            self.server.reset()
            self._send(200, {})
        else:
            self._send(404, {"error": {"message": "no such page"}})

    def _complete(self, body: Json) -> None:
        released = self.server.released
        behaviour = self.server.take(body, {name.lower(): value for name, value in self.headers.items()})
        fault = behaviour.get("fault", "")
        if fault == "stall_first":
            released.wait(_STALL_S)
            self.close_connection = True
        elif "status" in behaviour:
            self._send(behaviour["status"], behaviour.get("body", {}), behaviour.get("headers", {}))
        elif not body.get("stream"):
            self._send(200, _completion(behaviour))
        else:
            self._stream(_events(behaviour), fault, released)

    def _stream(self, events: Sequence[str], fault: str, released: threading.Event) -> None:
        self._start(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for event in events[:1] if fault else events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if fault == "stall_middle":
            released.wait(_STALL_S)
        if fault in ("stall_middle", "drop"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, content: Any, headers: Json | None = None) -> None:
        body = json.dumps(content).encode()
        whole = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        self._start(status, whole)
        self.wfile.write(body)

    def _start(self, status: int, headers: Json) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Connection)
        self._lock = threading.Lock()
        self.released = threading.Event()
        self.script: list[Json] = []
        self.requests: list[Json] = []

    def take(self, body: Json, headers: Json) -> Json:
        """Note a request, without its key, and return the behaviour for it."""
        headers.pop("authorization", None)
        with self._lock:
            self.requests.append({"body": body, "headers": headers})
            return self.script.pop(0) if self.script else {"text": NO_SCRIPT}

    def reset(self) -> None:
        """Forget the script and all requests, and end what stalls."""
        self.script, self.requests = [], []
        released, self.released = self.released, threading.Event()
        released.set()


def main() -> None:
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()  # the driver closes it, also when it is killed


if __name__ == "__main__":
    main()
