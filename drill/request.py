"""A request as SGLang's scheduler holds it: a pending finish and a finish are two fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

BAD_REQUEST = 400
INTERNAL_ERROR = 500

STUB_TOKEN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Why a request ended."""

    kind: Literal["length", "abort"]
    length: int = 0
    message: str = ""
    status: int | None = None
    err_type: str | None = None

    @property
    def is_abort(self) -> bool:
        """Tell whether the request was aborted or refused."""
        return self.kind == "abort"

    def as_json(self) -> dict[str, Any]:
        """Answer the `finish_reason` of a reply."""
        if self.kind == "length":
            return {"type": "length", "length": self.length}
        return {
            "type": "abort",
            "message": self.message,
            "status_code": self.status,
            "err_type": self.err_type,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Where the two legs of a request meet."""

    host: str | None = None
    port: int | None = None
    room: int | None = None


def _ignore(_req: Req) -> None:
    """Do nothing when nobody listens."""


@dataclass(eq=False, slots=True, kw_only=True)
class Req:
    """One leg of a request on one node."""

    rid: str
    serial: int
    input_ids: list[int]
    max_new_tokens: int | None
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    on_change: Callable[[Req], None] = _ignore
    output_ids: list[int] = field(default_factory=list)
    to_finish: Finish | None = None
    finished_reason: Finish | None = None
    pages: list[int] = field(default_factory=list)
    salt: str | None = None
    shared_pages: int = 0
    cached: dict[str, int] = field(default_factory=dict)
    transferred: int = 0
    entered_at: float = 0.0

    @property
    def cached_tokens(self) -> int:
        """Answer how many tokens of the prompt were not computed for it, whatever the tier."""
        return sum(self.cached.values())

    def finished(self) -> bool:
        """Tell whether the request has ended; a pending finish does not count, as in SGLang."""
        return self.finished_reason is not None

    def set_finish_with_abort(self, message: str, status: int = BAD_REQUEST) -> None:
        """Refuse the request as SGLang does: store the error as pending, keep a one-token stub."""
        self.input_ids = [STUB_TOKEN]
        self.to_finish = Finish(
            kind="abort", message=message, status=status, err_type="BadRequestError"
        )

    def update_finish_state(self) -> None:
        """Turn a pending finish into a finish, or end at the wanted length."""
        if self.finished():
            return
        if self.to_finish is not None:
            self.finished_reason, self.to_finish = self.to_finish, None
        elif len(self.output_ids) >= (self.max_new_tokens or 0):
            self.finished_reason = Finish(kind="length", length=self.max_new_tokens or 0)

    def fail(self, message: str, status: int) -> None:
        """End the request with an error of the engine."""
        self.finished_reason = Finish(kind="abort", message=message, status=status)
