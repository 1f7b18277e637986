"""Texts for the marker tests: what may happen to a code on its way, and answers full of ids."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable

from probes.marking.alphabet import ALPHABET

Change = Callable[[random.Random, str], str]
Answer = Callable[[random.Random, int], str]

_PROSE = (
    "The scheduler keeps a list of free pages, and a request that ends gives its own back. "
    "In 2019 the team saw 35 % of 1,234 answers cut short; section 4.2 tells why.\n"
    "- first: set `max_running_requests=256`\n- then: restart the node\n\n"
    "```python\nfor index in range(10):\n    print(index * 3.14159)\n```\n"
)


def chance(seed: object) -> random.Random:
    """Answer chance that is the same at every run."""
    return random.Random(str(seed))  # noqa: S311 - it makes no secret


def in_answer(random_: random.Random, said: str, size: int = 4096) -> tuple[str, int]:
    """Answer a text of ``size`` characters with this in it, and where."""
    start = random_.randrange(len(_PROSE))
    text = (_PROSE * (size // len(_PROSE) + 2))[start : start + size - len(said) - 2]
    at = random_.randrange(len(text))
    return f"{text[:at]}\n{said}\n{text[at:]}", at + 1


def _split_by(between: str) -> Change:
    def split(random_: random.Random, code: str) -> str:
        at = random_.randrange(1, len(code))
        return code[:at] + between + code[at:]

    return split


def _grouped_by(between: str) -> Change:
    def group(random_: random.Random, code: str) -> str:
        size = random_.randrange(1, 7)
        return between.join(code[at : at + size] for at in range(0, len(code), size))

    return group


def _padded(random_: random.Random, code: str) -> bytes:
    """Answer a code at any of the three alignments of base 64."""
    lead = random_.choice(["", "a", "ab", "abc", "the code: "])
    return (lead + code + random_.choice(["", ".", " x", "\n"])).encode()


def _in_base64(random_: random.Random, code: str) -> str:
    return base64.b64encode(_padded(random_, code)).decode()


def _in_url_base64(random_: random.Random, code: str) -> str:
    return base64.urlsafe_b64encode(b"\xff\xfe?" + _padded(random_, code)).decode().rstrip("=")


def _in_base64_lines(random_: random.Random, code: str) -> str:
    whole, size = _in_base64(random_, code), random_.randrange(5, 40)
    return "\r\n".join(whole[at : at + size] for at in range(0, len(whole), size))


def _hex_with(between: str, case: Callable[[str], str]) -> Change:
    def encode(random_: random.Random, code: str) -> str:
        del random_
        return between.join(case(f"{byte:02x}") for byte in code.encode())

    return encode


_CONFUSED = {"0": "OoОο", "1": "IlіӀ", "A": "АΑａ", "B": "ВΒ", "C": "СⅭ", "E": "ЕΕ𝐄", "H": "НΗ"}  # noqa: RUF001 - meant
_CONFUSED |= {"K": "КΚ\u212a", "M": "МΜ", "P": "РΡ", "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "S": "Ѕ"}  # noqa: RUF001


def _confused(random_: random.Random, code: str) -> str:
    return "".join(random_.choice(_CONFUSED.get(one, one)) for one in code)


def _full_width(random_: random.Random, code: str) -> str:
    del random_
    return "".join(chr(ord(one) + 0xFEE0) for one in code)


def substituted(count: int) -> Change:
    """Answer a change of this many characters to others of the alphabet."""

    def substitute(random_: random.Random, code: str) -> str:
        letters = list(code)
        for at in random_.sample(range(len(code)), count):
            letters[at] = random_.choice([one for one in ALPHABET if one != letters[at]])
        return "".join(letters)

    return substitute


def _deleted(random_: random.Random, code: str) -> str:
    at = random_.randrange(len(code))
    return code[:at] + code[at + 1 :]


def _inserted(random_: random.Random, code: str) -> str:
    at = random_.randrange(1, len(code))
    return code[:at] + random_.choice(ALPHABET) + code[at:]


def fragment(length: int) -> Change:
    """Answer a change that leaves so many characters."""

    def cut(random_: random.Random, code: str) -> str:
        at = random_.randrange(len(code) - length + 1)
        return code[at : at + length]

    return cut


#: Every change that must raise an alarm. Source: issue 4, detection.md A4.
ALARMING: dict[str, Change] = {
    "exact": lambda _random, code: code,
    "lower case": lambda _random, code: code.lower(),
    "mixed case": lambda random_, code: "".join(random_.choice([one, one.lower()]) for one in code),
    "glued": lambda random_, code: "".join(random_.choices(ALPHABET, k=9)) + code + "ABC77",
    "split by a hyphen": _split_by("-"),
    "split by a blank": _split_by(" "),
    "split by a new line": _split_by("\n"),
    "split by markdown": _split_by("**"),
    "split by a fence": _split_by("`\n> `"),
    "split by zero width": _split_by("\u200b"),
    "split by a soft hyphen": _split_by("\u00ad"),
    "grouped by hyphens": _grouped_by("-"),
    "grouped by blanks": _grouped_by(" "),
    "grouped by new lines": _grouped_by("\n"),
    "grouped by markdown": _grouped_by("_**_"),
    "grouped by zero width": _grouped_by("\u2060"),
    "base 64": _in_base64,
    "base 64 for addresses": _in_url_base64,
    "base 64 in lines": _in_base64_lines,
    "base 64 of lower case": lambda random_, code: _in_base64(random_, code.lower()),
    "hex": _hex_with("", str.lower),
    "upper-case hex": _hex_with("", str.upper),
    "hex with colons": _hex_with(":", str.lower),
    "hex with blanks": _hex_with(" ", str.upper),
    "hex as escapes": lambda _random, code: "".join(f"\\x{one:02x}" for one in code.encode()),
    "hex as numbers": lambda _random, code: ", ".join(f"0x{one:02x}" for one in code.encode()),
    "reversed": lambda _random, code: code[::-1],
    "reversed lower case": lambda _random, code: code[::-1].lower(),
    "look-alikes": _confused,
    "full width": _full_width,
    "1 substitution": substituted(1),
    "2 substitutions": substituted(2),
    "1 deletion": _deleted,
    "1 insertion": _inserted,
    "fragment of 20": fragment(20),
}
#: Every change that must raise a suspicion, which a replay settles.
SUSPICIOUS: dict[str, Change] = {
    "fragment of 16": fragment(16),
    "fragment of 12": fragment(12),
    "fragment of 10": fragment(10),
}


def _random_hex(random_: random.Random, size: int) -> str:
    return " ".join(random_.randbytes(16).hex() for _ in range(size // 33))


def _random_codes(random_: random.Random, size: int) -> str:
    return "\n".join("".join(random_.choices(ALPHABET, k=26)) for _ in range(size // 27))


def _random_base64(random_: random.Random, size: int) -> str:
    return base64.b64encode(random_.randbytes(size * 3 // 4)).decode()


def _base64_of_codes(random_: random.Random, size: int) -> str:
    return base64.b64encode(_random_codes(random_, size * 3 // 4).encode()).decode()


def _hex_of_codes(random_: random.Random, size: int) -> str:
    return _random_codes(random_, size // 2).encode().hex()


def _uuids(random_: random.Random, size: int) -> str:
    return "\n".join(
        str(uuid.UUID(int=random_.getrandbits(128), version=4)) for _ in range(size // 37)
    )


def _tokens(random_: random.Random, size: int) -> str:
    def part(length: int) -> str:
        return base64.urlsafe_b64encode(random_.randbytes(length)).decode().rstrip("=")

    return " ".join(f"eyJ{part(24)}.eyJ{part(90)}.{part(32)}" for _ in range(size // 205))


#: Answers full of what looks like codes and is none of ours.
HOSTILE: dict[str, Answer] = {
    "hex": _random_hex,
    "codes": _random_codes,
    "base 64": _random_base64,
    "base 64 of codes": _base64_of_codes,
    "hex of codes": _hex_of_codes,
    "uuids": _uuids,
    "tokens": _tokens,
}
