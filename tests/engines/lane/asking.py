"""Sends requests from inside a room; runs there as a program of its own, standard library only.

Usage: ``python asking.py SECONDS`` with ``[method, url, body or null]`` as JSON on standard input;
``python asking.py SECONDS wait URL...`` comes back with 0 once every URL answers 200.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request

_PAUSE_S = 0.3
#: An idle SGLang takes a second for its health.
_HEALTH_S = 10.0


def ask(method: str, url: str, body: object, *, timeout_s: float) -> tuple[int, str]:
    """Answer status and text of one request; status 0 where nothing came."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - an engine of ours on loopback
        url, data=data, method=method, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return answer.status, answer.read().decode("utf-8", errors="replace")
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode("utf-8", errors="replace")
    except OSError as fault:
        return 0, str(fault)


def wait_for(urls: list[str], *, timeout_s: float) -> list[str]:
    """Answer the URLs that did not answer 200 within the time."""
    deadline = time.monotonic() + timeout_s
    left = list(urls)
    while left and time.monotonic() < deadline:
        left = [url for url in left if ask("GET", url, None, timeout_s=_HEALTH_S)[0] != 200]
        if left:
            time.sleep(_PAUSE_S)
    return left


if __name__ == "__main__":
    if len(sys.argv) > 2:
        silent = wait_for(sys.argv[3:], timeout_s=float(sys.argv[1]))
        print(*silent, file=sys.stderr)  # noqa: T201 - its answer
        sys.exit(1 if silent else 0)
    words = json.load(sys.stdin)
    json.dump(ask(words[0], words[1], words[2], timeout_s=float(sys.argv[1])), sys.stdout)
