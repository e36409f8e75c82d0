"""The Skills extension over the protocol: declared and answered in both eras and on both request paths, and absent
with `--no-skills`.
"""

import base64
import hashlib
import sys

import pytest
from live_server import RELAY, Relayed

pytestmark = pytest.mark.served("memory")

PREFIX = "io.modelcontextprotocol/"
EXTENSION = f"{PREFIX}skills"
CLIENT = {"name": "reads-skills", "version": "1"}
ENVELOPE = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": CLIENT,
    f"{PREFIX}clientCapabilities": {"extensions": {EXTENSION: {}}},
}
ERAS = {"session": {}, "stateless": {"_meta": ENVELOPE}}
GUIDE = "skill://live-repl/SKILL.md"
CACHE = {"resultType", "ttlMs", "cacheScope"}
METHODS = {"skills/list": {}, "skills/get": {"uri": GUIDE}, "resources/directory/read": {"uri": "skill://live-repl"}}


def relayed(live, *options):
    return Relayed([sys.executable, "-I", "-S", RELAY, str(live.port_file), *options], live.environ)


@pytest.fixture(params=["socket", "relay"])
def client(live, request):
    with live.client() if request.param == "socket" else relayed(live) as client:
        yield client


@pytest.fixture(params=[{}, {"surprise": 1}], ids=["short-way", "sdk"])
def odd(request):
    """Return additional parameters of a request that choose the path on which it is answered."""
    return request.param


@pytest.mark.parametrize("era", ERAS)
def test_the_extension_is_declared_next_to_the_resources(client, odd, era):
    discovered = client.request("server/discover", {**odd, "_meta": ENVELOPE})["result"]
    requested = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT, **odd}
    about = discovered if era == "stateless" else client.request("initialize", requested)["result"]
    assert about["capabilities"]["extensions"][EXTENSION] == {"directoryRead": True}
    assert "resources" in about["capabilities"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", METHODS)
def test_only_stateless_results_have_a_cache_lifetime(client, odd, era, method):
    result = client.request(method, {**METHODS[method], **odd, **ERAS[era]})["result"]
    assert CACHE & result.keys() == (CACHE if era == "stateless" else set())
    if "ttlMs" in result:
        assert 0 < result["ttlMs"] <= 5000


@pytest.mark.parametrize("era", ERAS)
def test_every_file_of_every_listed_skill_matches_its_entry(client, era):
    (listed, item) = (client.request(m, {**METHODS[m], **ERAS[era]})["result"] for m in ("skills/list", "skills/get"))
    assert item["skill"] == listed["skills"][0]
    assert GUIDE in [skill["uri"] for skill in listed["skills"]]
    for resource in (resource for skill in listed["skills"] for resource in skill["resources"]):
        (read,) = client.request("resources/read", {"uri": resource["uri"], **ERAS[era]})["result"]["contents"]
        content = read["text"].encode() if "text" in read else base64.b64decode(read["blob"])
        assert resource["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert resource["size"] == len(content)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("method", "uri"),
    [("skills/get", "skill://none/SKILL.md"), ("resources/directory/read", "skill://none"),
     ("resources/directory/read", GUIDE)],
)  # fmt: skip
def test_an_unknown_uri_is_refused_as_invalid_params(client, odd, era, method, uri):
    error = client.request(method, {"uri": uri, **odd, **ERAS[era]})["error"]
    assert error["code"] == -32602
    assert uri in error["message"]


def test_there_is_no_skill_index(client):
    listed = client.request("resources/list")["result"]["resources"]
    assert GUIDE in [row["uri"] for row in listed]
    assert client.request("resources/read", {"uri": "skill://index.json"})["error"]["code"] == -32002
    read = client.request("resources/read", {"uri": "skill://index.json", "_meta": ENVELOPE})
    assert read["error"]["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
def test_a_client_behind_a_relay_without_skills_sees_no_skills(live, odd, era):
    with relayed(live, "--no-skills") as client:
        discovered = client.request("server/discover", {"_meta": ENVELOPE})["result"]
        about = discovered if era == "stateless" else client.about
        assert EXTENSION not in about["capabilities"].get("extensions", {})
        assert "skill://" not in about["instructions"]
        for method, params in METHODS.items():
            error = client.request(method, {**params, **odd, **ERAS[era]})["error"]
            assert (error["code"], error["data"]) == (-32601, method)
        listed = client.request("resources/list", ERAS[era])["result"]["resources"]
        assert [row["uri"] for row in listed if row["uri"].startswith("skill:")] == []
        assert "error" in client.request("resources/read", {"uri": GUIDE, **ERAS[era]})
        assert "error" in client.request("resources/subscribe", {"uri": GUIDE})
