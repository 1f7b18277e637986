"""Where the outbound client may connect to: the address policy (design, safety rule 6)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from fleet.contract import AddressRefused, FleetError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALLOW_VARIABLE: Final = "PAGEWARDEN_ALLOW_NETWORKS"
DENY_VARIABLE: Final = "PAGEWARDEN_DENY_NETWORKS"

#: Loopback and private ranges: where engines live unless the operator says otherwise.
DEFAULT_ALLOWED: Final[tuple[Network, ...]] = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    )
)

#: Refused whatever the operator allows. Cloud metadata outside link-local: AWS (fd00:ec2::254),
#: Google (fd20:ce::254), Scaleway (fd00:42::42), Alibaba, Azure and Oracle (three IPv4 hosts).
ALWAYS_REFUSED: Final[tuple[tuple[Network, str], ...]] = tuple(
    (ipaddress.ip_network(network), why)
    for network, why in (
        ("0.0.0.0/8", "an unspecified address"),
        ("::/128", "an unspecified address"),
        ("169.254.0.0/16", "a link-local address, where cloud metadata is served"),
        ("fe80::/10", "a link-local address"),
        ("100.100.100.200/32", "a cloud metadata address"),
        ("168.63.129.16/32", "a cloud metadata address"),
        ("192.0.0.192/32", "a cloud metadata address"),
        ("fd00:ec2::254/128", "a cloud metadata address"),
        ("fd20:ce::254/128", "a cloud metadata address"),
        ("fd00:42::42/128", "a cloud metadata address"),
        ("224.0.0.0/4", "a multicast address"),
        ("ff00::/8", "a multicast address"),
        ("255.255.255.255/32", "a broadcast address"),
        ("::ffff:0:0/96", "an IPv6 form of an IPv4 address (mapped)"),
        ("::ffff:0:0:0/96", "an IPv6 form of an IPv4 address (translated)"),
        ("64:ff9b::/96", "an IPv6 form of an IPv4 address (NAT64)"),
        ("64:ff9b:1::/48", "an IPv6 form of an IPv4 address (NAT64)"),
        ("2002::/16", "an IPv6 form of an IPv4 address (6to4)"),
        ("2001::/32", "an IPv6 form of an IPv4 address (Teredo)"),
    )
)

#: Deprecated IPv4-compatible addresses are ::/96, but ::1 in it is loopback.
_COMPATIBLE: Final = ipaddress.ip_network("::/96")
#: An ISATAP interface id is 0000:5efe or 0200:5efe before the IPv4 address.
_ISATAP_IDS: Final = (0x00005EFE, 0x02005EFE)

#: So strict that every parser on the way to the socket must read the same host from it.
_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"
    r"(?P<query>\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?",
    re.IGNORECASE,
)
#: A last label that starts like a number makes resolvers read the whole name as an IPv4 address.
_NUMERIC_LABEL: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)", re.IGNORECASE)
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")
_LONGEST_URL: Final = 2000
_LONGEST_NAME: Final = 253
_HIGHEST_PORT: Final = 65535
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A URL that was understood: ``address`` is None where the host is a name to be resolved."""

    scheme: str
    host: str
    port: int
    path: str = ""
    address: Address | None = None

    @property
    def origin(self) -> str:
        """Answer scheme, host and port in the one spelling that comparisons use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.port == _DEFAULT_PORTS[self.scheme]
        return f"{self.scheme}://{host}" if default else f"{self.scheme}://{host}:{self.port}"


def parse_url(url: str) -> Endpoint:
    """Answer what a URL points to, in lower case. Raises AddressRefused where it is not plain."""
    found = _URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
    if found is None:
        raise AddressRefused(_why_unreadable(url))
    scheme = found["scheme"].lower()
    port = int(found["port"]) if found["port"] else _DEFAULT_PORTS[scheme]
    if not 1 <= port <= _HIGHEST_PORT:
        raise AddressRefused(
            f"the address {show_url(url)} names no port between 1 and {_HIGHEST_PORT}"
        )
    try:
        host, address = _read_host(found["host"])
    except ValueError as fault:
        raise AddressRefused(f"the address {show_url(url)} {fault}") from None
    return Endpoint(scheme=scheme, host=host, port=port, path=found["path"] or "", address=address)


def show_url(url: str) -> str:
    """Answer a URL as it may be shown: without user, password or query, on one line, not long."""
    without = re.sub(r"//[^/?#]*@", "//", url)
    bare = re.split(r"[?#]", without, maxsplit=1)[0]
    printable = "".join(sign if sign.isprintable() else "?" for sign in bare)
    return printable if len(printable) <= 200 else f"{printable[:199]}…"  # noqa: PLR2004


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPolicy:
    """Networks that the operator allows and denies; ``ALWAYS_REFUSED`` stands above both."""

    allowed: tuple[Network, ...] = DEFAULT_ALLOWED
    denied: tuple[Network, ...] = ()

    def check_url(self, url: str) -> Endpoint:
        """Answer what a URL points to, its IP literal checked. Raises AddressRefused."""
        endpoint = parse_url(url)
        if endpoint.address is not None:
            self.check_address(endpoint.address, host=endpoint.host)
        return endpoint

    def check_address(self, address: Address, *, host: str) -> None:
        """Let an address pass, or raise AddressRefused with the reason and the way out."""
        reason = self.refusal_of(address)
        if reason:
            shown = host if host == str(address) else f"{host} ({address})"
            raise AddressRefused(f"{shown} is not connected to: it is {reason}")

    def refusal_of(self, address: Address) -> str:
        """Answer why an address is refused, or nothing where it may be connected to."""
        reason = _always_refused(address)
        if reason:
            return reason
        if _is_in(address, self.denied):
            return f"in a network that {DENY_VARIABLE} denies"
        if _is_in(address, self.allowed):
            return ""
        return f"outside the allowed networks; an operator widens them with {ALLOW_VARIABLE}"

    @property
    def described(self) -> str:
        """Answer the policy in one line, for a settings page or a log."""
        allowed = ", ".join(map(str, self.allowed)) or "nothing"
        denied = ", ".join(map(str, self.denied)) or "nothing"
        return f"allowed: {allowed}; denied: {denied}"


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    """Answer whether an address is in one of the networks; one of another version never is."""
    return any(address in network for network in networks)


def policy_from_environment(environment: Mapping[str, str]) -> AddressPolicy:
    """Answer the policy that an operator's variables ask for. Raises FleetError.

    Both hold networks, parted by commas or blanks. An allow list that starts with "only" replaces
    the default ranges, else it adds to them.
    """
    words = _words(environment.get(ALLOW_VARIABLE, ""))
    replaces = bool(words) and words[0].lower() == "only"
    extra = _networks(words[1:] if replaces else words, ALLOW_VARIABLE)
    return AddressPolicy(
        allowed=extra if replaces else DEFAULT_ALLOWED + extra,
        denied=_networks(_words(environment.get(DENY_VARIABLE, "")), DENY_VARIABLE),
    )


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _networks(words: list[str], variable: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(word) for word in words)
    except ValueError as fault:
        raise FleetError(f"{variable} holds no network: {fault}") from None


def _why_unreadable(url: str) -> str:
    shown = show_url(url)
    if len(url) > _LONGEST_URL:
        return f"the address {shown} is longer than {_LONGEST_URL} characters"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in _DEFAULT_PORTS:
        return f"the address {shown} does not start with http:// or https://"
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        return f"the address {shown} holds a user or password: give keys apart from addresses"
    return (
        f"the address {shown} is not plain: give http(s)://HOST:PORT with a name in ASCII, an IPv4 "
        "address in four decimal parts, or an IPv6 address in brackets"
    )


@lru_cache(maxsize=16384)
def _read_host(host: str) -> tuple[str, Address | None]:
    """Answer a host, and its address where it is a literal. Raises ValueError, why it is not."""
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError("holds no valid IPv6 address") from None
        return str(address), address
    if _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        try:
            return host, ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError("spells an IPv4 address oddly: write four decimal parts") from None
    if len(host) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, host.split("."))):
        raise ValueError("holds no valid name")
    return host.lower(), None


@lru_cache(maxsize=4096)
def _always_refused(address: Address) -> str:
    for network, why in ALWAYS_REFUSED:
        if network.version == address.version and address in network:
            return why
    if isinstance(address, ipaddress.IPv4Address):
        return ""
    if address.scope_id:
        return "an IPv6 address with a zone"
    if address in _COMPATIBLE and not address.is_loopback:
        return "an IPv6 form of an IPv4 address (compatible)"
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_IDS:
        return "an IPv6 form of an IPv4 address (ISATAP)"
    return ""
