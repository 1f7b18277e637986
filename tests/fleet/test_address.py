"""Rules of the address policy."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.address import (
    ALLOW_VARIABLE,
    ALWAYS_REFUSED,
    DENY_VARIABLE,
    AddressPolicy,
    parse_url,
    policy_from_environment,
    show_url,
)
from fleet.contract import AddressRefused, FleetError

EVERYWHERE = policy_from_environment({ALLOW_VARIABLE: "0.0.0.0/0 ::/0"})


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "::1",
        "fc00::1",
        "fd12:3456::1",
    ],
)
def test_loopback_and_private_ranges_are_allowed_by_default(address: str) -> None:
    assert AddressPolicy().refusal_of(ipaddress.ip_address(address)) == ""


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "2a00::1", "11.0.0.1", "192.169.0.1"])
def test_public_addresses_need_the_operator(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert ALLOW_VARIABLE in AddressPolicy().refusal_of(parsed)
    assert EVERYWHERE.refusal_of(parsed) == ""


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.1.1",
        "100.100.100.200",
        "0.0.0.0",  # noqa: S104 - refused, not bound
        "224.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "fd00:ec2::254",
        "::",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "2002:7f00:1::1",
        "64:ff9b::7f00:1",
        "2001:0:1::1",
        "fd00::5efe:10.0.0.1",
        "fd00::200:5efe:a00:1",
    ],
)
def test_dangerous_addresses_stay_refused_whatever_the_operator_allows(address: str) -> None:
    assert EVERYWHERE.refusal_of(ipaddress.ip_address(address))


@given(st.sampled_from([network for network, _ in ALWAYS_REFUSED]), st.integers(min_value=0))
def test_no_address_of_a_refused_network_passes(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, offset: int
) -> None:
    address = network[offset % network.num_addresses]
    assert EVERYWHERE.refusal_of(address)


@given(st.ip_addresses(v=4))
def test_no_ipv6_dress_lets_an_ipv4_address_through(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    dresses = [
        (0xFFFF << 32) | number,
        (0x64FF9B << 96) | number,
        (0x2002 << 112) | (number << 80),
        (0x20010000 << 96) | (number ^ 0xFFFFFFFF),
        (0xFD00 << 112) | (0x5EFE << 32) | number,
    ]
    for dress in dresses:
        assert EVERYWHERE.refusal_of(ipaddress.IPv6Address(dress))


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "127.0.0.01",
        "127.0.0.1.",
        "127.0.0.256",
        "1.2.3.4.5",
        "0x",
        "a.0x7f",
    ],
)
def test_odd_spellings_of_ipv4_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        AddressPolicy().check_url(f"http://{host}:8000/")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://10.0.0.1/",
        "file:///etc/passwd",
        "//10.0.0.1/",
        "10.0.0.1:8000",
        "http://",
        "http:///x",
        "http://user:pw@10.0.0.1/",
        "http://10.0.0.1@8.8.8.8/",
        "http://10.0.0.1:0/",
        "http://10.0.0.1:65536/",
        "http://10.0.0.1:http/",
        "http://[fe80::1%25eth0]/",
        "http://[::1]extra/",
        "http://10.0.0.1\\@8.8.8.8/",
        "http://10.0.0.1/\r\nX: y",
        "http://\uff11\uff10.0.0.1/",
        "http://münchen.example/",
        "http://a..b/",
        "http://-a/",
        "gopher://a/",
        f"http://{'a' * 64}.example/",
        "http://10.0.0.1#@8.8.8.8/",
        " http://10.0.0.1/",
    ],
)
def test_urls_that_are_not_plain_are_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        EVERYWHERE.check_url(url)


def test_a_literal_in_a_url_is_checked_and_a_name_is_left_to_the_resolver() -> None:
    policy = AddressPolicy()
    assert policy.check_url("http://10.0.0.1:8000/x").port == 8000
    assert policy.check_url("https://Node-1.internal").origin == "https://node-1.internal"
    with pytest.raises(AddressRefused, match=r"8\.8\.8\.8"):
        policy.check_url("http://8.8.8.8/")
    with pytest.raises(AddressRefused, match="mapped"):
        policy.check_url("http://[::ffff:10.0.0.1]/")


@given(st.text(max_size=60))
def test_every_text_is_parsed_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://10.0.0.1{text}"):
        try:
            endpoint = parse_url(url)
        except AddressRefused:
            continue
        else:
            assert endpoint.scheme in {"http", "https"}
            assert url.isascii()


def test_a_password_in_an_address_is_never_shown() -> None:
    with pytest.raises(AddressRefused) as refusal:
        parse_url("http://user:hunter2@10.0.0.1/")
    assert "hunter2" not in str(refusal.value)
    assert "hunter2" not in show_url("http://10.0.0.1/x?key=hunter2")


def test_the_operator_adds_replaces_and_denies_networks() -> None:
    public, private = ipaddress.ip_address("203.0.113.7"), ipaddress.ip_address("10.0.0.1")
    added = policy_from_environment({ALLOW_VARIABLE: "203.0.113.0/24"})
    assert (added.refusal_of(public), added.refusal_of(private)) == ("", "")
    replaced = policy_from_environment({ALLOW_VARIABLE: "only 203.0.113.0/24"})
    assert replaced.refusal_of(public) == ""
    assert replaced.refusal_of(private)
    denied = policy_from_environment({DENY_VARIABLE: "10.0.0.0/24, fd00::/8"})
    assert DENY_VARIABLE in denied.refusal_of(private)
    assert denied.refusal_of(ipaddress.ip_address("10.0.1.1")) == ""
    with pytest.raises(FleetError, match=ALLOW_VARIABLE):
        policy_from_environment({ALLOW_VARIABLE: "10.0.0.0/99"})
