"""What real routers hand on of a prompt, from their wheels: the dialects tell the truth."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet.client import OutboundClient
from fleet.contract import Api, Completion, Form
from fleet.dialects import DIALECTS
from fleet.speaking import router_speaker
from tests.deployments import DrillStarter
from tests.fleet.real_routers import need, running, split_arguments

KINDS = ("sglang-router", "smg", "vllm-router")
MODEL = "small-model"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


class RecordingServer(ThreadingHTTPServer):
    """An engine that keeps what it was asked and answers every API, whole or streamed."""

    daemon_threads = True
    asked: list[tuple[dict[str, Any], str]]


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RecordingServer

    def do_GET(self) -> None:
        document: dict[str, Any] = {"status": "ok"}
        if self.path == "/v1/models":
            document = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        self._send(json.dumps(document), "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((body, self.headers.get("x-request-id", "")))
        if body.get("stream"):
            events = "".join(f"data: {json.dumps(one)}\n\n" for one in self._frames())
            self._send(f"{events}data: [DONE]\n\n", "text/event-stream")
        else:
            self._send(json.dumps(self._whole()), "application/json")

    def _whole(self) -> dict[str, Any]:
        if self.path == "/generate":
            return _generated("to be", 2, {"type": "length", "length": 2})
        said: dict[str, Any] = {"index": 0, "finish_reason": "length", "text": "to be"}
        said["message"] = {"role": "assistant", "content": "to be"}
        return {"id": "a", "object": "x", "created": 1, "model": MODEL, "choices": [said]} | {
            "usage": USAGE
        }

    def _frames(self) -> list[dict[str, Any]]:
        if self.path == "/generate":
            return [_generated("to ", 1, None), self._whole()]
        whole = self._whole()
        frames = []
        for text, finish in (("to ", None), ("be", "length")):
            choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "text": text}
            choice["delta"] = {"content": text}
            frames.append(whole | {"choices": [choice], "usage": None})
        return [*frames, whole | {"choices": []}]

    def _send(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


def _generated(text: str, count: int, finish: object) -> dict[str, Any]:
    meta = {"id": "a", "finish_reason": finish, "prompt_tokens": 3, "completion_tokens": count}
    return {"text": text, "output_ids": list(range(count)), "meta_info": meta}


@contextmanager
def engine(port: int) -> Iterator[RecordingServer]:
    server = RecordingServer(("127.0.0.1", port), Engine)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def prompt_in(body: dict[str, Any]) -> object:
    if "messages" in body:
        return body["messages"][0]["content"]
    return body.get("input_ids") or body.get("text") or body["prompt"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_router_hands_on_what_its_dialect_says(
    kind: str, free_ports: Callable[[], int], tmp_path: Path
) -> None:
    need(kind)
    port = free_ports()
    dialect = DIALECTS[kind]
    with (
        engine(port + 2) as server,
        running(
            kind, port, ["--worker-urls", f"http://127.0.0.1:{port + 2}"], tmp_path / "log"
        ) as url,
    ):
        async with OutboundClient() as client:
            speaker = router_speaker(client, url, kind=kind, model=MODEL)
            for api in sorted(dialect.apis):
                for is_streamed in (False, True):
                    salt = "a salt" if api in dialect.salts else ""
                    form = Form(
                        api=api, is_streamed=is_streamed, cache_salt=salt, wants_logprobs=True
                    )
                    server.asked.clear()
                    came = await speaker.ask(
                        token_ids=[7, 8, 9],
                        max_new_tokens=2,
                        tenant_key="t",
                        timeout_s=20,
                        form=form,
                        text="seven",
                    )
                    assert (came.error, came.answer, came.prompt_tokens) == ("", "to be", 3)
                    assert came.frames == ((2 if api is Api.GENERATE else 3) * is_streamed)
                    ((body, request_id),) = server.asked
                    assert prompt_in(body) == ([7, 8, 9] if api in dialect.ids else "seven")
                    assert body.get("cache_salt", "") == salt
                    assert len(request_id) == 32
                    named = [body[name] for name in ("rid", "request_id") if name in body]
                    assert named == [request_id] * (api in dialect.rid)
                    assert body.get("logprobs") or body.get("return_logprob")


@pytest.mark.parametrize("kind", ["sglang-router", "smg"])
async def test_streams_of_a_split_pair_are_read_through_a_real_router(
    kind: str,
    start_drill: DrillStarter,
    free_ports: Callable[[], int],
    tmp_path: Path,
) -> None:
    need(kind)
    figures = ("--prefill-pool", "1600", "--decode-pool", "1600", "--context", "3000")
    drill = start_drill("--page-size", "16", *figures, "--engine-version", "0.5.22")
    key = drill.tenants[0]["api_key"]
    with running(kind, free_ports(), split_arguments(kind, drill.nodes), tmp_path / "log") as url:
        async with OutboundClient() as client:
            speaker = router_speaker(client, url, kind=kind, model=drill.model)

            async def ask(api: Api, length: int, *, is_streamed: bool) -> Completion:
                return await speaker.ask(
                    token_ids=[97] * length,
                    max_new_tokens=4,
                    tenant_key=key,
                    timeout_s=30,
                    form=Form(api=api, is_streamed=is_streamed),
                    text="a" * length,
                )

            for api in Api:
                whole = await ask(api, 40, is_streamed=False)
                streamed = await ask(api, 40, is_streamed=True)
                assert (whole.status, whole.error) == (200, "")
                assert (whole.prompt_tokens == 40) is (api is not Api.CHAT)
                assert (streamed.answer, streamed.token_ids) == (whole.answer, whole.token_ids)
                assert streamed.prompt_tokens == whole.prompt_tokens
                assert streamed.completion_tokens == 4
                assert (streamed.frames > 1, streamed.first_token_s is not None) == (True, True)
                for is_streamed in (False, True):
                    # 1,594 is the first length refused; a chat's template only adds to it.
                    refused = await ask(api, 1594, is_streamed=is_streamed)
                    assert (refused.said_status, refused.is_refused) == (400, True)
                    assert "exceeds the maximum allowed length" in refused.error
                    assert refused.status == (200 if is_streamed else 400)
