"""What people may vouch for: settings that an engine does not show, by name.

The names are those under which gates ask. An advisory may ask for others by the names in its
conditions, so a name that stands here is known and any other is taken as such a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: Name of a setting -> what its value says. A gate that rests on one names it in its verdict.
ATTESTABLE: Final[Mapping[str, str]] = {
    "transfer_backend": "transfer back end, such as mooncake, nixl or mori",
    "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE": "1 or 0, as the process was started",
    "SGLANG_MOONCAKE_MAX_TRANSFER_BATCH_INDICES": "pages a call; 0 is unbounded",
    "num_reserved_decode_tokens": "reserve of a decode node, in tokens",
    "sliding_window": "window of the model, in tokens",
    "kv_lease_duration": "vLLM: for how many seconds pages are held for the reader",
    "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "the same of older vLLM, in seconds",
    "router_queue_s": "longest time that a request waits in the router, in seconds",
    "kv_unified": "llama.cpp: true or false, whether the slots share one pool",
    "decode_context_parallel_size": "vLLM: context-parallel size; above 1 no pool is proved",
    "image_digest": "digest of the image that runs, sha256:...",
    "patch.38935": "digest of the image that carries this upstream change, sha256:...",
    "storage_cleared": "true, once the storage of KV pages was emptied after a change",
}

#: Beginnings of names that stand for many: one advisory settled by its id.
PREFIXES: Final = ("advisory.",)

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")


def is_name(key: str) -> bool:
    """Answer whether this can be the name of a setting."""
    return _NAME.fullmatch(key) is not None


def meaning_of(key: str) -> str:
    """Answer what the value of a name says."""
    if key.startswith(PREFIXES):
        return "fixed or not affected, for this advisory"
    return ATTESTABLE.get(key, "a condition that only an advisory can ask for")
