"""Secrets are redacted before text leaves the server."""

import html
import itertools
import json
import re
import shlex
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codriver.log.redaction import Redactor, secret_line_parts

ENVIRON = {
    "API_KEY": "sk-abcdefgh",
    "LONG_TOKEN": "sk-abcdefgh-and-more",
    "DB_PASSWORD": 'p"ss\nword',
    "MY_SECRET": "geheim-äöü",
    "SHORT_KEY": "1234567",
    "KEY": "only-the-word",
    "HOME": "/home/somebody",
    "KEY_FILE": "/etc/some/file",
}
redact = Redactor.from_environment(ENVIRON)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-abcdefgh!", "key <<redacted:API_KEY>>!"),
        ("sk-abcdefgh-and-more", "<<redacted:LONG_TOKEN>>"),
        ("sk-abcdefghsk-abcdefgh", "<<redacted:API_KEY>><<redacted:API_KEY>>"),
        ("geheim-äöü", "<<redacted:MY_SECRET>>"),
        ('p"ss\nword', "<<redacted:DB_PASSWORD>>"),
        (r'{:password "p\"ss\nword"}', '{:password "<<redacted:DB_PASSWORD>>"}'),
        ("1234567 only-the-word /home/somebody /etc/some/file", None),
        ("sk-abcdefg", None),
        ("", None),
    ],
)
def test_values_of_secret_variables_are_replaced_by_markers(text, expected):
    assert redact(text) == (text if expected is None else expected)


def test_variables_with_lower_case_names_can_also_be_secret():
    assert Redactor.from_environment({"api_token": "12345678"})("12345678") == "<<redacted:api_token>>"


def test_text_is_unchanged_without_secrets():
    assert Redactor.from_environment({})("any text") == "any text"
    assert Redactor.from_environment({}).new_stream_redactor().feed("any text") == "any text"


def test_the_marker_uses_the_first_of_two_variable_names_with_the_same_value():
    for environ in ({"B_KEY": "samesame", "A_KEY": "samesame"}, {"A_KEY": "samesame", "B_KEY": "samesame"}):
        assert Redactor.from_environment(environ)("samesame") == "<<redacted:A_KEY>>"


def test_every_string_of_a_json_value_is_redacted():
    value = {"a sk-abcdefgh": ["geheim-äöü", 1, None, True, {"b": ("x", "sk-abcdefgh")}], "n": 1.5}
    assert redact.redact_json(value) == {
        "a <<redacted:API_KEY>>": ["<<redacted:MY_SECRET>>", 1, None, True, {"b": ["x", "<<redacted:API_KEY>>"]}],
        "n": 1.5,
    }


PEM_LINE = "MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu"
SERVICE_ACCOUNT = f"""{{
  "type": "service_account_of_somebody",
  "private_key_id": "8f2c0d1e9b7a6f5e4d3c2b1a",
  "private_key": "-----BEGIN PRIVATE KEY-----\\n{PEM_LINE}\\n-----END PRIVATE KEY-----\\n",
  "client_password": "correct-horse-battery-staple",
  "auth_uri": "https://accounts.example.com/o/oauth2/auth",
  "hook": "https://user:swordfish@example.com/hook"
}}"""


@pytest.mark.parametrize(
    "line",
    [
        PEM_LINE,
        "8f2c0d1e9b7a6f5e4d3c2b1a",
        "correct-horse-battery-staple",
        "https://user:swordfish@example.com/hook",
        PEM_LINE.replace("/", r"\/"),
    ],
)
def test_each_line_of_a_multi_line_secret_is_also_a_secret(line):
    redactor = Redactor.from_environment({"ACCOUNT_KEY": SERVICE_ACCOUNT})
    for displayed in (line, f"+{line}", f"  {line}", f"('{line}\\n'", f'"{line}",'):
        assert redactor(displayed) == displayed.replace(line, "<<redacted:ACCOUNT_KEY>>")
    assert redactor(SERVICE_ACCOUNT) == "<<redacted:ACCOUNT_KEY>>"


@pytest.mark.parametrize(
    "line",
    [
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----",
        '"private_key": "-----BEGIN PRIVATE KEY-----',
        '  "type": "service_account_of_somebody",',
        '  "auth_uri": "https://accounts.example.com/o/oauth2/auth",',
        "universe_domain: googleapis.com",
        "-----------------------------------",
        "[default]",
        "services:",
        "DB_HOST_NAME",
        "</googleApis>",
        "universe.domain",
        "port: 5432",
        '"scopes": [',
    ],
)
def test_a_harmless_line_of_a_multi_line_secret_is_not_redacted(line):
    redactor = Redactor.from_environment({"X_KEY": f"{line}\n{line}\nand more", "ACCOUNT_KEY": SERVICE_ACCOUNT})
    assert redactor(f"+{line} ") == f"+{line} "


@pytest.mark.parametrize(
    "line",
    ["MIIBOgIBAAJBAKj34Gk", "kLmNoPqRsTuV", "q7T+/w==", "correct horse", "12345678", "kLmNoPqRsTuV=", "Tr0ub4dor&3"],
)
def test_a_short_random_line_of_a_key_is_also_a_secret(line):
    redactor = Redactor.from_environment({"X_KEY": f"-----BEGIN KEY-----\n{PEM_LINE}\n{line}\n-----END KEY-----\n"})
    for displayed in (line, f"+{line}", f"  {line}", f"('{line}\n'", f'"{line}",'):
        assert redactor(displayed) == displayed.replace(line, "<<redacted:X_KEY>>")


def test_only_a_long_value_of_a_name_value_line_is_redacted():
    assert secret_line_parts("a\nclient: hx7-99kq\npassword: abc\nsize: 12") == ("hx7-99kq", "password: abc")


def test_a_single_line_secret_is_redacted_only_as_a_whole():
    assert secret_line_parts("one value of more than twenty characters") == ()


def test_a_line_of_a_secret_split_across_chunks_is_redacted():
    redactor = Redactor.from_environment({"ACCOUNT_KEY": SERVICE_ACCOUNT})
    for cut in range(1, len(PEM_LINE)):
        stream = redactor.new_stream_redactor()
        out = stream.feed(PEM_LINE[:cut]) + stream.feed(PEM_LINE[cut:] + "\n") + stream.flush()
        assert out == "<<redacted:ACCOUNT_KEY>>\n"


@pytest.mark.parametrize("times", range(4))
def test_a_text_without_any_fragment_of_a_secret_is_recognized_as_clean(times):
    for secret in (*ENVIRON.values(), 'quote"slash\\\n12'):
        printed = secret
        for _ in range(times):
            printed = json.dumps([printed])
        assert Redactor({"ANY_KEY": secret}).may_contain_secret(printed)
    assert not Redactor({"ANY_KEY": "sk-abcdefgh"}).may_contain_secret('{"result":"3"}')
    assert Redactor({"ANY_KEY": "-/-/-/-/-/"}).may_contain_secret("whatever"), (
        "no piece of it is the same in every print"
    )
    assert not Redactor({}).may_contain_secret("whatever")


def test_a_secret_split_across_chunks_is_redacted():
    secret = ENVIRON["LONG_TOKEN"]
    for cut in range(1, len(secret)):
        stream = redact.new_stream_redactor()
        out = stream.feed("before " + secret[:cut]) + stream.feed(secret[cut:] + " after") + stream.flush()
        assert out == "before <<redacted:LONG_TOKEN>> after"


def test_only_a_possible_start_of_a_secret_is_held_back():
    stream = redact.new_stream_redactor()
    assert stream.feed("plain text\n") == "plain text\n"
    assert stream.feed("a sk-abc") == "a "
    assert stream.feed("xyz") == "sk-abcxyz"
    assert stream.feed("task") == "ta"
    assert stream.flush() == "sk"
    assert stream.flush() == ""


def test_a_secret_that_may_be_the_start_of_a_longer_one_is_redacted_when_the_stream_ends():
    stream = redact.new_stream_redactor()
    assert stream.feed("sk-abcdefgh") == ""
    assert stream.flush() == "<<redacted:API_KEY>>"
    assert stream.feed("sk-abcdefgh-an") == ""
    assert stream.feed("other") == "<<redacted:API_KEY>>-another"


@given(
    st.sets(st.text("ab-", min_size=8, max_size=12), min_size=1, max_size=3),
    st.lists(st.text("ab-", max_size=9), max_size=12),
    st.data(),
)
def test_chunks_are_redacted_like_the_whole_text(secrets, chunks, data):
    redactor = Redactor.from_environment({f"S{i}_KEY": secret for i, secret in enumerate(sorted(secrets))})
    chunks = [*chunks, data.draw(st.sampled_from(sorted(secrets))), *chunks]
    stream = redactor.new_stream_redactor()
    assert "".join([*map(stream.feed, chunks), stream.flush()]) == redactor("".join(chunks))


def clojure_prints(text):
    names = {'"': r"\"", "\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f", "\b": r"\b"}
    return '"' + "".join(names.get(character, character) for character in text) + '"'


def json_with_escaped_slashes(text):
    return json.dumps(text).replace("/", r"\/")


PRINTERS = [
    repr,
    ascii,
    lambda text: repr(text.encode()),
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    json_with_escaped_slashes,
    clojure_prints,
]
ENCODERS = [
    str,
    quote,
    quote_plus,
    lambda text: quote(text, safe=""),
    lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text)),
    html.escape,
    shlex.quote,
]
NASTY = st.text("ab\"'`\\/\n\r\t\b\x01\x1b\x7f\xa0é€😀 %&<@=+\u200b", min_size=8, max_size=14)
UNTIDY = 'p@ss"wo\\rd é1'


@given(NASTY, st.sampled_from(PRINTERS), st.sampled_from([str, *PRINTERS]))
@example(UNTIDY, repr, str)
@example(UNTIDY, json.dumps, str)
@example(UNTIDY, json.dumps, repr)
def test_a_secret_is_redacted_in_the_notation_of_any_language(secret, prints, prints_again):
    redactor = Redactor.from_environment({"DB_PASSWORD": secret})
    out = redactor(prints_again(prints(f"({secret})")))
    assert out.strip("b'\"\\") == "(<<redacted:DB_PASSWORD>>)"


@given(NASTY, st.sampled_from(ENCODERS))
def test_a_secret_is_redacted_in_urls_html_and_shell_quoting(secret, encodes):
    redactor = Redactor.from_environment({"DB_PASSWORD": secret})
    assert redactor(encodes(secret)).strip("'") == "<<redacted:DB_PASSWORD>>"


@given(NASTY, st.sampled_from(PRINTERS), st.data())
def test_a_quoted_secret_split_across_chunks_is_redacted(secret, prints, data):
    redactor = Redactor.from_environment({"DB_PASSWORD": secret})
    text = f"x{prints(secret)}y{secret}"
    cuts = sorted({0, len(text), *data.draw(st.sets(st.integers(0, len(text)), max_size=6))})
    stream = redactor.new_stream_redactor()
    fed = [stream.feed(text[start:end]) for start, end in itertools.pairwise(cuts)]
    out = "".join([*fed, stream.flush()])
    assert out == redactor(text)
    assert out.count("<<redacted:DB_PASSWORD>>") == 2


def test_a_multi_line_key_is_redacted_with_escaped_lines():
    key = "-----BEGIN KEY-----\n" + ("Abc/+d8" * 9 + "\n") * 25 + "-----END KEY-----\n"
    redactor = Redactor.from_environment({"TLS_KEY": key})
    assert redactor(f"{key}|{key!r}|{json.dumps(key)}|{json.dumps(repr(key))}") == (
        "<<redacted:TLS_KEY>>|'<<redacted:TLS_KEY>>'|\"<<redacted:TLS_KEY>>\"|\"'<<redacted:TLS_KEY>>'\""
    )


def test_a_secret_with_undecodable_bytes_is_redacted():
    secret = b"gr\xfc\xdfe-abcdef".decode("utf-8", "surrogateescape")
    redactor = Redactor.from_environment({"OLD_PASSWORD": secret})
    raw = secret.encode("utf-8", "surrogateescape")
    for text in (secret, raw.decode("utf-8", "replace"), quote(raw)):
        assert redactor(text) == "<<redacted:OLD_PASSWORD>>"
    assert redactor(repr(raw)) == "b'<<redacted:OLD_PASSWORD>>'"
    assert redactor(repr(secret)) == "'<<redacted:OLD_PASSWORD>>'"


def test_a_secret_with_a_lone_surrogate_is_redacted():
    secret = "half \ud800 of a pair"
    redact = Redactor({"HALF_KEY": secret})
    assert redact(f"a {secret}!") == "a <<redacted:HALF_KEY>>!"
    assert redact(json.dumps(secret)) == '"<<redacted:HALF_KEY>>"'


def test_a_secret_added_later_is_also_redacted_in_open_streams():
    redactor = Redactor({"A_KEY": "first-secret"})
    stream = redactor.new_stream_redactor()
    stream.feed("x")
    redactor.add_secret("KERNEL_TOKEN", "second-secret")
    redactor.add_secret("KERNEL_TOKEN", "third-secret")
    redactor.add_secret("KERNEL_TOKEN", "first-secret")
    redactor.add_secret("KERNEL_TOKEN", "short")
    reported = redactor("first-secret second-secret third-secret short")
    assert reported == "<<redacted:A_KEY>> <<redacted:KERNEL_TOKEN>> <<redacted:KERNEL_TOKEN_2>> short"
    assert stream.feed("y second-sec") + stream.feed("ret z") + stream.flush() == "y <<redacted:KERNEL_TOKEN>> z"


def test_sensitive_values_of_an_application_are_redacted_until_its_repl_ends():
    redactor = Redactor({"A_TOKEN": "t0ken-of-the-environment"})
    stream = redactor.new_stream_redactor()
    redactor.add_sensitive_strings(
        "py", [("shop user.<token>", "hunter-2-hunter"), ("shop user.card", "4111 1111 1111")]
    )
    redactor.add_sensitive_strings("py", [("shop user.token", "renewed-hunter-3")])
    redactor.add_sensitive_strings("clj", [("main pin", "hunter-2-hunter")])
    reported = "hunter-2-hunter renewed-hunter-3 4111 1111 1111 t0ken-of-the-environment"
    marks = ["shop user.token", "shop user.token", "shop user.card", "A_TOKEN"]
    assert redactor(reported) == " ".join(f"<<redacted:{name}>>" for name in marks)
    assert stream.feed("a hunter-2-hun") == "a "
    assert stream.feed("ter b") == "<<redacted:shop user.token>> b"
    redactor.remove_sensitive_strings("py")
    assert redactor(reported).startswith("<<redacted:main pin>> renewed-hunter-3 4111 1111 1111 <<")
    redactor.remove_sensitive_strings("clj")
    redactor.remove_sensitive_strings("clj")
    assert redactor(reported) == reported.replace("t0ken-of-the-environment", "<<redacted:A_TOKEN>>")


def test_permitted_callers_see_sensitive_values_but_no_environment_secrets():
    redactor = Redactor({"A_TOKEN": "t0ken-of-the-environment"})
    redactor.add_sensitive_strings("py", [("shop token", "hunter-2-hunter")])
    redactor.add_secret("B_TOKEN", "t0ken-of-a-server")
    message = {"value": "hunter-2-hunter t0ken-of-the-environment t0ken-of-a-server"}
    displayed = redactor.redact_json(message, shows_sensitive=True)
    assert displayed == {"value": "hunter-2-hunter <<redacted:A_TOKEN>> <<redacted:B_TOKEN>>"}
    assert "hunter" not in str(redactor.redact_json(message))


def test_only_the_newest_sensitive_values_are_kept_within_limits():
    redactor = Redactor({})
    redactor.add_sensitive_strings("py", [("shop token", f"token-{number}-of-many") for number in range(1001)])
    assert redactor("token-0-of-many token-1-of-many token-1000-of-many").split()[0] == "token-0-of-many"
    assert redactor("token-1-of-many") == redactor("token-1000-of-many") == "<<redacted:shop token>>"
    redactor.add_sensitive_strings("py", [("shop blob", f"{number:06}" + "y" * 4090) for number in range(70)])
    assert redactor("000001" + "y" * 4090) == "000001" + "y" * 4090
    assert redactor("000069" + "y" * 4090) == "<<redacted:shop blob>>"


@pytest.mark.parametrize("text", ["short", "-" * 20, " " * 8, ""])
def test_short_or_symbol_only_sensitive_values_are_not_redacted(text):
    redactor = Redactor({})
    redactor.add_sensitive_strings("py", [("shop token", text)])
    assert redactor(f"<{text}>") == f"<{text}>"
