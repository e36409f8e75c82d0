import pytest
from refusals import refused_as

from codriver.features.jupyter.kernels.named_kernels import (
    KernelNameError,
    KernelUrl,
    TokenSource,
    parse_location,
    parse_url,
    split_key,
)

SECRET = "0123456789abcdef-secret"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Host:8888/api/kernels/a-1", KernelUrl("https://host:8888", kernel="a-1")),
        ("https://host/user/NAME/api/kernels/a-1/channels", KernelUrl("https://host/user/NAME", kernel="a-1")),
        ("http://[::1]:8888/?kernel=python3", KernelUrl("http://[::1]:8888", spec="python3")),
        ("http://h/?kernel=python3#b", KernelUrl("http://h", spec="python3", name="b")),
        ("http://host/base/?kernel=", KernelUrl("http://host/base", spec="")),
        ("http://host/lab/tree/x.ipynb?kernel=ir", KernelUrl("http://host", spec="ir")),
        ("http://host/b/?notebook=work/a%20b.ipynb", KernelUrl("http://host/b", notebook="work/a b.ipynb")),
    ],
)
def test_a_url_names_a_kernel_on_a_server(text, url):
    assert parse_location(text) == url
    assert parse_url(str(url)) == url
    assert url.address == f"jupyter+{url}"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"http://host/lab?token={SECRET}", "tokenFile or tokenEnv"),
        (f"http://host/?kernel=python3&token={SECRET}", "tokenFile or tokenEnv"),
        (f"http://me:{SECRET}@host/?kernel=python3", "tokenFile or tokenEnv"),
        (f"http://{SECRET}@host/?kernel=python3", "tokenFile or tokenEnv"),
        (f"http://host/#token={SECRET}", "tokenFile or tokenEnv"),
        (f"ftp://host/{SECRET}", "http:// or https://"),
        (f"http:///{SECRET}", "http:// or https://"),
        (f"http://[host/{SECRET}", "the URL is invalid"),
        (f"http://host:{SECRET}/", "the URL is invalid"),
        (f"http://host/{SECRET}/", "but no kernel"),
        (f"{SECRET}.json", "has to be absolute"),
    ],
)
def test_text_that_names_no_kernel_is_refused_without_echoing_secrets(text, cause):
    with pytest.raises(KernelNameError, match=cause) as raised:
        parse_location(text)
    assert SECRET not in str(raised.value)


def test_a_connection_file_can_be_given_by_its_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_location("~/kernel.json") == tmp_path / "kernel.json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu=https://host/?kernel=python3", ("gpu", "https://host/?kernel=python3")),
        ("https://host/?kernel=python3", (None, "https://host/?kernel=python3")),
        ("/tmp/a=b.json", (None, "/tmp/a=b.json")),
    ],
)
def test_a_key_can_precede_a_kernel(text, expected):
    assert split_key(text) == expected


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (KernelUrl("http://h", notebook="work/My Plot.ipynb"), "My-Plot-ipynb"),
        (KernelUrl("http://h", spec="ir"), "r"),
        (KernelUrl("http://h", kernel="a-1"), "jup"),
    ],
)
def test_a_remote_kernel_is_named_after_its_notebook_or_kernelspec(url, key):
    assert url.key == key


@pytest.mark.parametrize(
    ("base", "is_unencrypted"),
    [
        ("http://127.0.0.1:8888", False),
        ("http://localhost", False),
        ("http://[::1]:8888", False),
        ("https://host", False),
        ("http://host", True),
        ("http://127.0.0.1.example.org", True),
    ],
)
def test_only_plain_http_to_another_machine_is_unencrypted(base, is_unencrypted):
    assert KernelUrl(base).is_unencrypted == is_unencrypted


def test_a_token_file_must_be_private(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o644)
    with refused_as("repl-unreachable", match="other users may read the file"):
        TokenSource(file=str(file)).read({})
    file.chmod(0o600)
    assert TokenSource(file=str(file)).read({}) == SECRET


def test_a_token_is_read_from_a_servers_own_file(tmp_path):
    file = tmp_path / "jpserver-1.json"
    file.write_text(f'{{"token": "{SECRET}"}}')
    file.chmod(0o600)
    assert TokenSource(file=str(file)).read({}) == SECRET
    for text in ("[]", "{", '{"token": 3}'):
        file.write_text(text)
        with refused_as("repl-unreachable"):
            TokenSource(file=str(file)).read({})


def test_a_token_is_read_from_an_environment_variable():
    assert TokenSource(variable="HUB").read({"HUB": SECRET}) == SECRET
    assert TokenSource().read({}) is None


@pytest.mark.parametrize("text", [f"{SECRET} and more", f"{SECRET}\r\nHost: else", "\xff" + SECRET, ""])
def test_a_malformed_token_is_refused_without_echoing_it(text, tmp_path):
    file = tmp_path / "token"
    file.write_text(text, encoding="latin-1")
    file.chmod(0o600)
    for source, environ in ((TokenSource(file=str(file)), {}), (TokenSource(variable="HUB"), {"HUB": text})):
        with refused_as("repl-unreachable") as raised:
            source.read(environ)
        assert SECRET not in f"{raised.value} {raised.value.hint} {raised.value.details}"


def test_a_missing_token_is_reported_with_its_source(tmp_path):
    with refused_as("repl-unreachable", match=f"the file {tmp_path}/token: the file does not exist"):
        TokenSource(file=str(tmp_path / "token")).read({})
    with refused_as("repl-unreachable", match="the variable HUB: the variable was not set"):
        TokenSource(variable="HUB").read({})
