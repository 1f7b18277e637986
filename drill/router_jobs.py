"""What the router does in the background: it registers workers and checks their health."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self

import aiohttp

from drill.workers import Registry, Worker

_STARTUP_CHECK_S = 0.1
_CHECK_TIMEOUT_S = 5.0
_OK = 200


class RouterJobs:
    """The router's client and its background tasks. Use as an asynchronous context manager."""

    def __init__(self, registry: Registry, *, health_interval_s: float) -> None:
        self._registry = registry
        self._health_interval_s = health_interval_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the client and begin to check."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        self._start(self._check_health())
        return self

    async def __aexit__(self, *_details: object) -> None:
        """End every task and close the client."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """Answer the client. Raises RuntimeError before the router serves."""
        if self._session is None:
            raise RuntimeError("the router is not serving")
        return self._session

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def register(self, worker: Worker) -> None:
        """Ask a new worker who it is, in the background, until it answers or is removed."""
        self._start(self._register(worker))

    async def _register(self, worker: Worker) -> None:
        while self._registry.get(worker.id) is worker:
            info = await self.ask(worker, "/get_model_info")
            server = await self.ask(worker, "/get_server_info")
            if info is not None and server is not None:
                worker.register(info, str(server.get("disaggregation_mode", "null")))
                return
            await asyncio.sleep(_STARTUP_CHECK_S)

    async def ask(self, worker: Worker, path: str) -> dict[str, Any] | None:
        """Answer what a worker says on a GET, {} without a JSON object, None unless it is 200."""
        headers = {} if worker.api_key is None else {"Authorization": f"Bearer {worker.api_key}"}
        timeout = aiohttp.ClientTimeout(total=_CHECK_TIMEOUT_S)
        url = worker.url + path
        try:
            async with self.session.get(url, headers=headers, timeout=timeout) as reply:
                if reply.status != _OK:
                    return None
                text = await reply.text()
                body = await reply.json(content_type=None) if text.startswith("{") else {}
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
        return dict(body)

    async def _check_health(self) -> None:
        while True:
            await asyncio.sleep(self._health_interval_s)
            workers = [one for one in self._registry.all() if one.is_registered]
            answers = await asyncio.gather(*(self.ask(one, "/health") for one in workers))
            for worker, answer in zip(workers, answers, strict=True):
                worker.note_check(is_good=answer is not None)
