"""What must never happen in the protocol, as names."""

from __future__ import annotations

from enum import StrEnum


class Finding(StrEnum):
    """A way in which one of the properties is broken."""

    REFUSED_PROMPT = "refused-prompt"
    LATE_WRITE = "late-write"
    REUSED_SOURCE = "reused-source"
    HOST_COPY = "host-copy"
    UNWRITTEN = "unwritten-page"
    OWNED_TWICE = "page-owned-twice"
    WAITS_FOR_EVER = "waits-for-ever"
    HELD_RESERVATION = "held-reservation"

    @property
    def is_foreign_read(self) -> bool:
        """Tell whether a request reads what another wrote."""
        return self in _FOREIGN


_FOREIGN = frozenset(
    {Finding.REFUSED_PROMPT, Finding.LATE_WRITE, Finding.REUSED_SOURCE, Finding.HOST_COPY}
)

FINDING_WORDS = {
    Finding.REFUSED_PROMPT: "a refused prompt is answered from pages that nobody wrote for it",
    Finding.LATE_WRITE: "a transfer that was given up lands in the next owner's page",
    Finding.REUSED_SOURCE: "prefill reuses a page that a transfer still reads "
    "(assumed: a transfer that prefill gave up still says that it is complete)",
    Finding.HOST_COPY: "the copy to the host tier reads a page after its release",
    Finding.UNWRITTEN: "a request reads a page that nobody ever wrote",
    Finding.OWNED_TWICE: "a page is owned twice",
    Finding.WAITS_FOR_EVER: "a request waits for ever, and no time-out ends it",
    Finding.HELD_RESERVATION: "decode is not told of prefill's refusal and holds pages until its "
    "time-out while the client waits",
}
"""What each finding means, in one clause."""
