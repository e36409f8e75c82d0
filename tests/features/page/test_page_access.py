"""Access to the page: each opening has its own host name and token, codes work once, and the server can prove it
knows the token.
"""

import hmac
import re

import pytest

from codriver.features.page.page_credentials import CODE_LIFETIME_S, MAX_CODES, MAX_INVALID_CODES, PageAccess


@pytest.fixture
def access():
    return PageAccess()


def test_each_opened_page_has_a_128_bit_host_name_and_its_own_token(access):
    assert re.fullmatch(r"[0-9a-f]{32}\.localhost", access.random_host)
    others = [PageAccess() for _ in range(20)]
    assert len({other.random_host for other in others}) == len({other.token for other in others}) == 20


def test_a_code_can_be_exchanged_once(access):
    code = access.issue_code(access.random_host, 0)
    assert access.exchange_code(code, access.random_host, 1) == (access.token, None)
    assert access.exchange_code(code, access.random_host, 2) == (None, "used")


def test_a_code_expires_after_ten_minutes(access):
    codes = [access.issue_code(access.random_host, 0) for _ in range(2)]
    assert access.exchange_code(codes[0], access.random_host, CODE_LIFETIME_S - 0.1)[0] == access.token
    assert access.exchange_code(codes[1], access.random_host, CODE_LIFETIME_S) == (None, "expired")
    assert CODE_LIFETIME_S == 600


def test_at_most_eight_codes_are_outstanding_and_the_oldest_is_replaced(access):
    codes = [access.issue_code(access.random_host, number) for number in range(MAX_CODES + 1)]
    assert access.exchange_code(codes[0], access.random_host, 10) == (None, "replaced")
    assert all(access.exchange_code(code, access.random_host, 10)[0] for code in codes[1:])
    assert MAX_CODES == 8


def test_a_code_works_only_with_the_host_it_was_issued_for(access):
    code = access.issue_code(access.random_host, 0)
    assert access.exchange_code(code, "127.0.0.1", 1) == (None, "unknown")
    assert access.exchange_code(code, access.random_host, 1)[0] == access.token


@pytest.mark.parametrize("code", ["", "A" * 32, "\ud800"])
def test_arbitrary_text_is_not_accepted_as_a_code(access, code):
    access.issue_code(access.random_host, 0)
    assert access.exchange_code(code, access.random_host, 1) == (None, "unknown")


def test_only_a_limited_number_of_used_codes_is_remembered(access):
    first = access.issue_code(access.random_host, 0)
    access.exchange_code(first, access.random_host, 0)
    for _ in range(MAX_INVALID_CODES):
        access.exchange_code(access.issue_code(access.random_host, 0), access.random_host, 0)
    assert access.exchange_code(first, access.random_host, 0) == (None, "unknown")
    assert len(access._spent) == MAX_INVALID_CODES


def test_a_proof_is_specific_to_the_token_and_the_nonce(access):
    nonce = "ab" * 32
    expected = hmac.new(access.token.encode(), f"codriver page {nonce}".encode(), "sha256").hexdigest()
    assert access.prove_token_knowledge(nonce) == expected
    assert access.prove_token_knowledge("cd" * 32) != expected
    assert PageAccess().prove_token_knowledge(nonce) != expected


@pytest.mark.parametrize("nonce", ["", "ab" * 31, "AB" * 32, "ab" * 33, "zz" * 32, f"{'ab' * 32}\n"])
def test_a_malformed_nonce_gets_no_proof(access, nonce):
    assert access.prove_token_knowledge(nonce) is None
