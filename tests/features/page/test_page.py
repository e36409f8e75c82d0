"""The page in a real browser: what it displays, what a person can do with it, and what it keeps out."""

import contextlib
import http.server
import json
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest
from browser import Browser
from forwarded_port import Forwarding, Liar, Trap
from live_server import until, user_settings_file
from page_client import Events, opened

import codriver.features.page
from codriver.features.page.page_files import ASSETS_DIRECTORY
from codriver.features.page.page_redirect import write_redirect

pytestmark = pytest.mark.served("python", client="claude-code", other="codex-mcp-client")

PRICES = '"""Prices."""\n\n\ndef total(items):\n    return sum(price for price, count in items)\n'
TESTS = """import time

from prices import total


def test_one():
    assert total([(2, 1)]) == 2


def test_two():
    assert total([(2, 3)]) == 6


def test_slow():
    while not open("go").read():
        time.sleep(0.02)
"""
PICTURE = """
import base64
class Plot:
    def _repr_png_(self):
        return base64.b64decode(
            b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Plot()
"""
SIZED = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Sized:
    def __init__(self, width):
        self.head, self.data = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0), zlib.compress(bytes(width + 1))
    def _repr_png_(self):
        parts = chunk(b"IHDR", self.head) + chunk(b"IDAT", self.data) + chunk(b"IEND", b"")
        return bytes([137, 80, 78, 71, 13, 10, 26, 10]) + parts
"""
TABLE = """
class Frame:
    def __repr__(self): return "a frame"
    def _repr_html_(self):
        return "<style>td { color: red }</style><table><tr><td>tea</td></tr></table><script>parent.x = 1</script>"
Frame()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def live(live):
    with live.client(name="claude-code") as client:
        assert client.call("evaluate_code", code="6 * 7", timeoutMs=60_000)["ok"]
    return live


@pytest.fixture(scope="module")
def served_page(live):
    return opened(live)


@pytest.fixture
def page(browser, served_page, client):
    with browser.page(served_page.address) as opened_page:
        opened_page.shows("live", "#connection")
        yield opened_page
        assert opened_page.wrong == []
        own = (served_page.origin, f"blob:{served_page.origin}", "data:")
        assert [url for url in opened_page.requested if not url.startswith(own)] == []
        # Whatever is shown, it holds within its width, and nothing else than our modules is code.
        assert opened_page.run("document.documentElement.scrollWidth <= innerWidth")
        assert opened_page.run("[...document.scripts].map(one => new URL(one.src).pathname)") == [
            "/access.js",
            "/main.js",
        ]


def row(words):
    """Return the row with this text, in the language of the page."""
    return f"[...document.querySelectorAll('.row')].find(one => one.innerText.includes({json.dumps(words)}))"


row_of = row
"""The same, where a variable has its name."""


def evaluate(client, code, **more):
    return client.call("evaluate_code", code=code, timeoutMs=60_000, **more)


def test_the_token_is_stored_for_one_tab_and_survives_a_reload(page, served_page):
    assert page.run("location.href") == f"{served_page.origin}/"
    assert page.run("Object.entries(sessionStorage)") == [["token", served_page.token]]
    assert page.run("document.cookie") == ""
    assert page.run("localStorage.length") == 0
    assert page.run("caches.keys()") == []
    assert page.run("indexedDB.databases()") == []
    assert page.run("navigator.serviceWorker.getRegistrations().then(found => found.length)") == 0
    assert served_page.token not in page.run("document.documentElement.outerHTML")
    assert not [url for url in page.requested if served_page.token in url]
    page.run("window.isOld = true; setTimeout(() => location.reload(), 0); true")
    page.until("!window.isOld && document.body?.innerText.includes('6 * 7')", "the page that was loaded again")


def test_a_page_without_a_code_names_the_command_that_issues_one(browser, served_page):
    with browser.page(f"{served_page.origin}/") as page:
        page.shows("Open the address that `codriver watch --web` prints", "#connection")
        assert "6 * 7" not in page.text()


def test_opening_a_used_address_shows_the_command_that_prints_a_new_one(browser, served_page):
    address = served_page.address
    for words in (
        "live",
        "This address works only once, and has already been used. Run `codriver watch --web` to get another one.",
    ):
        with browser.page(address) as page:
            page.shows(words, "#connection")
            assert page.run("location.hash") == ""
    with browser.page(f"{served_page.origin}/#{'A' * 32}") as page:
        page.shows("does not belong to this server. Run `codriver watch --web`", "#connection")


def test_a_tab_opened_from_the_page_gets_its_own_code(browser, page, served_page, client):
    assert client.call("evaluate_code", code="6 * 7")["ok"]
    known = {target["targetId"] for target in browser.request("Target.getTargets")["targetInfos"]}

    def opened_tabs():
        found = browser.request("Target.getTargets")["targetInfos"]
        return [item for item in found if item["type"] == "page" and item["targetId"] not in known]

    page.press_button("#another")
    (target,) = until(opened_tabs, "another tab")
    with browser.attached(target["targetId"]) as other:
        other.shows("live", "#connection")
        other.shows("6 * 7", "#rows")
        assert other.run("location.href") == f"{served_page.origin}/"
        assert other.run("window.opener") is None
        assert other.run("sessionStorage.length") == 1


def test_a_redirect_file_opens_the_page_which_survives_a_reload(browser, served_page, tmp_path):
    file = tmp_path / "page.html"
    write_redirect(file, served_page.address)
    with browser.page(file.as_uri()) as page:
        page.until(f"location.origin === {json.dumps(served_page.origin)}", "the page behind the file")
        page.shows("live", "#connection")
        page.run("window.isOld = true; setTimeout(() => location.reload(), 0); true")
        page.until("!window.isOld && document.querySelector('#connection')?.innerText === 'live'", "the reloaded page")


def test_no_worker_can_be_registered_from_the_page(page):
    """Neither its policy nor the server allows it, whatever path is tried."""
    script = """(path => navigator.serviceWorker.register(path).then(() => 'registered', () => 'refused'))"""
    for path in ("/main.js", "/access.js", "/", "/worker.js"):
        assert page.run(f"{script}({json.dumps(path)})") == "refused"
    page.wrong.clear()  # the policy reports what it refuses


LOOKUPS = ("HOST_RESOLVER_SYSTEM_TASK", "HOST_RESOLVER_DNS_TASK", "DNS_TRANSACTION", "HOST_RESOLVER_MDNS_TASK")


def test_the_host_name_of_the_page_is_never_resolved_by_dns(served_page, tmp_path):
    log, other = tmp_path / "net.json", "looked-up.invalid"
    with contextlib.closing(Browser(tmp_path, f"--log-net-log={log}")) as own:
        with own.page(served_page.address) as page:
            page.shows("live", "#connection")
        with own.page(f"http://{other}/") as page:
            page.until("location.protocol === 'chrome-error:'", "the name of nobody")
        own.end()
    found = json.loads(log.read_text())
    names = {number: name for name, number in found["constants"]["logEventTypes"].items()}
    events = [(names[item["type"]], json.dumps(item)) for item in found["events"]]
    assert [text for _, text in events if served_page.host in text]
    lookups = {item["source"]["id"] for item in found["events"] if names[item["type"]] in LOOKUPS}
    for item in found["events"]:
        item.get("params", {}).pop("network_anonymization_key", None)  # the page that causes a lookup, not its name
    texts = [json.dumps(item) for item in found["events"] if item["source"]["id"] in lookups]
    assert [text for text in texts if other in text]
    assert not [text for text in texts if served_page.host in text]


def test_rows_show_callers_code_and_results(page, client, other):
    page.shows("42", "#rows")
    evaluate(client, "def rate(price):\n    return price * 2\n\nrate(21.5)", who="ann")
    evaluate(other, "1 / 0")
    page.shows("43.0", "#rows")
    page.shows("ZeroDivisionError: division by zero", "#rows")
    assert "ann" in page.run(f"{row('rate(21.5)')}.innerText")
    hues = page.run("[...document.querySelectorAll('.who')].map(one => [one.innerText, one.dataset.hue])")
    assert len({hue for who, hue in hues if who}) == len({who for who, _ in hues if who})
    assert page.run(f"{row('1 / 0')}.classList.contains('failed')")


def test_a_running_evaluation_shows_its_time_and_output_and_can_be_interrupted(page, client, other):
    pending = client.begin_call("evaluate_code", code="import time\nwhile True:\n    print('tick'); time.sleep(0.05)")
    page.shows("tick", "#rows")
    page.shows("claude-code", "#repls")
    page.click(".alive .line", "while True")
    page.until("document.querySelector('.detail .stdout')?.innerText.split('tick').length > 6", "the output in the row")
    page.until("/\\d/.test(document.querySelector('.alive .duration').innerText)", "a clock")
    page.click(".detail button", "Interrupt")
    page.shows("human called interrupt_evaluation")
    client.answer(pending)
    page.until(f"{row('while True')}.classList.contains('failed')", "the row to be over")
    page.until("!document.querySelector('.detail .stop')", "no button where nothing runs")
    answer = other.call("repl_output_log", query="[:find ?t :where [?e :output/text ?t]]", limit=1000)
    assert "human" in json.dumps(answer)


def test_an_evaluation_waiting_for_input_is_answered_from_its_row(page, client):
    pending = client.begin_call("evaluate_code", code="'hello ' + input('your name? ')", timeoutMs=30_000)
    page.shows("waiting for input", "#rows")
    page.shows("has to enter input", "#repls")
    page.click(".alive .line", "your name?")
    page.until("Boolean(document.querySelector('.answer input'))")
    page.run("document.querySelector('.answer input').focus()")
    page.type("Eve")
    page.press("Enter")
    page.shows("'hello Eve'", "#rows")
    assert client.answer(pending)


def test_an_open_row_shows_code_output_error_frames_and_notes(page, client):
    prints = "print('before'); print('loud', file=sys.stderr)"
    code = f"import sys\ndef inner(n):\n    raise KeyError(n)\n{prints}\ninner('gone')"
    evaluate(client, code, description="look it up")
    page.click(".line", "def inner(n)")
    for words in ("look it up", "def inner(n):", "before", "loud", "KeyError: 'gone'", "in inner"):
        page.shows(words, ".detail")
    page.shows("KeyError: 'gone'", ".detail p.error")
    page.shows("inner", ".detail .frames")
    assert "[object" not in page.text(".detail")
    page.click(".line", "def inner(n)")
    page.until("!document.querySelector('.detail')", "the row to be closed")


def test_long_output_is_read_in_parts_from_its_end(page, client):
    evaluate(client, "for n in range(40_000): print('line', n)")
    page.click(".line", "range(40_000)")
    page.shows("line 39999", ".detail .stdout")
    assert page.run("document.querySelector('.detail .stdout').innerText.length") < 70_000
    end = "(one => one && one.scrollTop > 0 && one.scrollTop + one.clientHeight > one.scrollHeight - 9)"
    page.until(f"{end}(document.querySelector('.detail .stdout'))", "the end of the output")
    page.click(".detail button", "Show earlier output")
    page.until("document.querySelector('.detail .stdout').innerText.length > 80_000")


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """Run a server whose log contains more evaluations than the server remembers; return the ids of the first two."""
    from live_server import serving  # noqa: PLC0415  # the module has one of its own

    folder = tmp_path_factory.mktemp("long")
    user_settings_file(folder).write_text("logMaxEntities = 10000\n")
    with serving(folder) as live, live.client() as client:
        failed = evaluate(client, "1 / 0  # long ago")["evaluationId"]
        printed = evaluate(client, "import sys; print('an error, told', file=sys.stderr)", detail=True)["evaluationId"]
        for _ in range(26):
            for pending in [client.begin_call("evaluate_code", code="'one of many'") for _ in range(50)]:
                client.answer(pending)
        evaluate(client, "'the newest'")
        yield live, failed, printed


def test_a_large_log_arrives_newest_first_and_complete(long_log):
    live, *_ = long_log
    with Events(opened(live)) as events:
        assert events.next()[1]["isLoading"]
        parts = []
        while not parts or parts[-1]["before"]:
            name, data = events.next()
            parts += [data] if name == "rows" else []
        assert "'the newest'" in json.dumps(parts[0]["rows"])
        befores = [data["before"] for data in parts]
        assert befores == sorted(befores, reverse=True)
        assert len(parts) > 3
        codes = [item for item in events.rows.values() if item.get("text") == "'one of many'"]
        assert len(codes) == 26 * 50
        assert {code["result"] for code in codes} == {"'one of many'"}


def test_the_page_shows_that_it_is_loading_until_it_is_complete(browser, long_log):
    live, *_ = long_log
    with browser.page("about:blank") as page:
        page.request(
            "Page.addScriptToEvaluateOnNewDocument",
            source="""addEventListener("DOMContentLoaded", () => {
          const place = document.getElementById("loading"), rows = document.getElementById("rows");
          window.seen = [];
          new MutationObserver(() => {
            if (!place.hidden) seen.push([place.textContent, document.getElementById("empty").hidden]);
          }).observe(place, { childList: true, characterData: true, attributes: true, subtree: true });
        })""",
        )
        page.request("Page.navigate", url=opened(live).address)
        page.shows("'the newest'", "#rows")
        page.until("document.getElementById('loading').hidden", "all rows")
        assert page.run("seen.some(([text]) => text === 'Loading earlier rows…')")
        assert page.run("seen.every(([, isHidden]) => isHidden)"), "nothing says that nothing has happened"


def test_a_failure_that_the_server_has_forgotten_is_still_shown_as_failed(browser, long_log):
    live, failed, printed = long_log
    page = opened(live)
    with Events(page) as events:
        row = events.row(id=failed, status="failed")
        assert row["error"] == "ZeroDivisionError: division by zero"
        assert events.rows[printed]["status"] == "past"
    assert page.tool("get_evaluation", evaluationId=failed)["reason"] == "unknown-evaluation"
    with browser.page(page.address) as opened_page:
        opened_page.until("document.getElementById('loading')?.hidden && document.querySelector('.row')", "all rows")
        opened_page.click(".filter", "Errors")
        opened_page.until(f"{row_of('long ago')}?.classList.contains('failed')", "the failure")


def test_rows_display_line_breaks_and_count_the_lines_beyond_three(page, client):
    evaluate(client, "import math\nmath.floor(6.5)")
    evaluate(client, "a = 1\nb = 2\nc = 3\nd = 4\n'a\\nb'")
    what = "querySelector('.what').innerText"
    page.until(f"{row('math.floor')}?.{what} === 'import math\\nmath.floor(6.5)'", "two lines")
    page.until(f"{row('b = 2')}?.{what} === 'a = 1\\nb = 2\\nc = 3  … 2 more lines'", "three of five lines")
    heights = f"[{row('math.floor')}, {row('b = 2')}].map(one => one.offsetHeight)"
    assert page.run(heights) == [52, 70]
    overlap = """(() => { const boxes = [...document.querySelectorAll('.row')].map(one => one.getBoundingClientRect());
      return boxes.some((one, at) => at && one.top < boxes[at - 1].bottom - 1); })()"""
    assert not page.run(overlap)


def test_plots_and_loads_are_shown_without_meaningless_values(live, page, client):
    evaluate(client, f"{SIZED}[type('Line', (), {{}})(), Sized(7)]; Sized(7)\n[object()]")
    evaluate(client, "x_of_nothing = None\nx_of_nothing")
    (live.workspace / "loaded_module.py").write_text("VALUE = 1\n")
    assert client.call("load_file", filePath=str(live.workspace / "loaded_module.py"))["ok"]
    outcome = "querySelector('.outcome').innerText"
    page.until(f"{row('loaded_module.py')}?.{outcome} === 'loaded'", "the load")
    page.until(f"{row('x_of_nothing')}?.{outcome} === ''", "no value")
    page.until(f"{row('import struct, zlib')}?.{outcome} === ''", "no value of a plot")


def test_an_opened_row_is_scrolled_into_view(page, client):
    evaluate(client, "'to be opened'  # at the end\n" + "\n".join(f"v{n} = {n}" for n in range(40)))
    page.press("G")
    page.click(".line", "to be opened")
    page.until("Boolean(document.querySelector('.detail .about'))", "the row to be filled")
    box, place = "document.querySelector('.open').getBoundingClientRect()", "document.querySelector('#scroll')"
    inside = (
        f"{box}.top >= {place}.getBoundingClientRect().top - 1 && {box}.top < {place}.getBoundingClientRect().bottom"
    )
    page.until(inside, "the beginning of the row to be seen")
    fits = f"{box}.bottom <= {place}.getBoundingClientRect().bottom + 1 || {box}.height > {place}.clientHeight"
    page.until(fits, "the row to be seen")


def test_the_query_view_opens_with_an_example_and_its_answer(page, client):
    evaluate(client, "'asked ' + 'about'")
    page.press("2")
    page.until("document.querySelector('textarea').value.startsWith('[:find')", "an example")
    page.shows("'asked about'", "#panel table")


def test_images_are_dimmed_only_in_dark_mode(browser, served_page, client):
    evaluate(client, PICTURE)
    for scheme, expected in (("dark", "brightness(0.8) contrast(1.05)"), ("light", "none")):
        with browser.page(served_page.address, prefers_color_scheme=scheme) as page:
            page.until("document.querySelector('#strip img')?.naturalWidth > 0", "the picture")
            assert page.run("getComputedStyle(document.querySelector('#strip img')).filter") == expected


def test_images_in_rows_and_in_the_strip_can_be_enlarged(page, client):
    evaluate(client, PICTURE)
    newest = "[...document.querySelectorAll('.row .media img')].at(-1)"
    page.until(f"{newest}?.naturalWidth === 1", "the picture in its row")
    page.until("document.querySelector('#strip img')?.naturalWidth === 1", "the picture in the strip")
    page.click(".media .picture")
    page.until("document.querySelector('#large').open")
    page.shows("Download", "#large")
    page.press("Escape")
    page.until("!document.querySelector('#large').open")


def test_images_of_one_evaluation_are_in_order(page, client):
    evaluate(client, f"{SIZED}Sized(2)\nSized(3)\nSized(4)")
    evaluate(client, "Sized(5)\nSized(6)\n7")
    widths = "[...one.querySelectorAll('img')].map(image => image.naturalWidth)"
    rows = f"[...document.querySelectorAll('.row .media')].slice(-2).map(one => {widths})"
    page.until(f"JSON.stringify({rows}) === '[[2,3,4],[5,6]]'", "the pictures in their rows")
    strip = f"[document.querySelector('#strip')].flatMap(one => {widths}).slice(0, 5)"
    page.until(f"JSON.stringify({strip}) === '[6,5,4,3,2]'", "the last pictures, the newest first")


def test_a_table_is_in_a_frame_without_scripts_or_an_origin(page, served_page, client):
    evaluate(client, TABLE)
    page.click(".line", "a frame")
    page.until("Boolean(document.querySelector('.detail iframe'))")
    address = page.run("document.querySelector('.detail iframe').getAttribute('src')")
    assert len(address) > 38
    assert page.run("document.querySelector('.detail iframe').getAttribute('sandbox')") == ""
    page.until("document.querySelector('.detail iframe').contentDocument === null", "a frame that is not ours to read")
    assert page.run("window.x") is None
    page.shows("As text", ".detail")
    until(lambda: served_page.frame(address)[0] == 404, "the address to have been used")
    page.wrong = [
        item for item in page.wrong if "sandboxed" not in json.dumps(item) and "frame/" not in json.dumps(item)
    ]


CONNECTING = """
class Connecting:
    def __init__(self, name, markup): self.name, self.markup = name, markup
    def __repr__(self): return self.name
    def _repr_html_(self): return self.markup + "<table><tr><td>tea</td></tr></table>"
"""
WAYS_OUT = {
    "preconnect": "<link rel=preconnect href={0}>",
    "frame": "<iframe src={0}></iframe>",
    "frame in place": "<iframe srcdoc='<link rel=preconnect href={0}>'></iframe>",
    "all others": (
        "<link rel=dns-prefetch href={0}><link rel=preload as=image href={0}><link rel=stylesheet href={0}>"
        "<link rel=icon href={0}><link rel=prefetch href={0}><embed src={0}><object data={0}></object><base href={0}>"
        "<img src={0}><video src={0} poster={0}></video><script src={0}></script><input type=image src={0}>"
        "<svg><image href={0} /></svg><style>p { background: url({0}) }</style><a href={0} ping={0}>go</a>"
    ),
    "refresh": "<meta http-equiv=refresh content='0;url={0}'>",
}


def test_a_table_makes_the_browser_connect_nowhere(browser, page, served_page, client):
    evaluate(client, CONNECTING)
    framed = """(address => new Promise(done => {
      const frame = document.createElement('iframe');
      Object.assign(frame, { sandbox: '', src: address, onload: () => done(true) });
      document.body.append(frame);
    }))"""
    with contextlib.closing(Trap()) as trap, contextlib.closing(Trap()) as control:
        for name, markup in WAYS_OUT.items():
            code = f"Connecting({name!r}, {markup.replace('{0}', f'http://127.0.0.1:{trap.port}/x')!r})"
            answer = evaluate(client, code, detail=True)
            address = served_page.call("rich-formats", evaluation=answer["evaluationId"])["address"]
            assert page.run(f"{framed}({json.dumps(address)})")
        # What a table connects to at once, it has connected to before a page that comes later.
        markup = WAYS_OUT["preconnect"].replace("{0}", f"http://127.0.0.1:{control.port}/x")
        with browser.page(f"data:text/html,<iframe sandbox='' src='data:text/html,{markup}'></iframe>"):
            until(lambda: control.count, "the control to connect")
        assert trap.count == 0
    page.run("document.querySelectorAll('body > iframe').forEach(one => one.remove())")
    page.wrong.clear()


def test_markdown_and_latex_of_a_value_are_in_its_row(page, client):
    reported = "def __repr__(self): return 'a note'\n def _repr_markdown_(self): return '# Head'"
    evaluate(client, f"class Told:\n {reported}\n def _repr_latex_(self): return '$x^2$'\nTold()")
    page.click(".line", "a note")
    page.shows("Head", ".detail .markdown")
    page.until("[...document.querySelectorAll('.detail pre')].some(one => one.innerText === '$x^2$')", "LaTeX as text")


def test_the_address_of_a_table_frame_works_once_and_has_a_strict_policy(served_page, client):
    answer = evaluate(client, TABLE, detail=True)
    reply = served_page.call("rich-formats", evaluation=answer["evaluationId"])
    assert reply["lines"] == 1
    status, headers, text = served_page.frame(reply["address"])
    assert status == 200
    assert "tea" in text
    policy = headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert served_page.frame(reply["address"])[0] == 404


def test_running_tests_are_followed_and_failures_include_frames(live, page, client):
    (live.workspace / "prices.py").write_text(PRICES)
    (live.workspace / "test_prices.py").write_text(TESTS)
    (live.workspace / "go").write_text("")
    pending = client.begin_call("run_tests", namespace="test_prices.py", timeoutMs=60_000)
    page.shows("2 of 3 tests, 1 failed", "#rows")
    bar = "document.querySelector('.tests [role=progressbar]')"
    assert page.run(f"[{bar}.ariaValueNow, {bar}.ariaValueMax]") == ["2", "3"]
    widths = page.run(f"[{bar}.offsetHeight, {bar}.firstChild.offsetWidth / {bar}.offsetWidth]")
    assert widths[0] >= 6
    assert 0.6 < widths[1] < 0.72
    assert page.text(".tests .where") == "tests"
    page.click(".line", "2 of 3")
    page.shows("test_two", ".detail")
    (live.workspace / "go").write_text("1")
    client.answer(pending)
    page.shows("3 tests, 1 failed", "#rows")
    page.shows("test_prices.py:11", ".detail")
    page.click(".filter", "Tests")
    page.until("[...document.querySelectorAll('.row')].every(one => one.classList.contains('tests'))")


def test_an_edit_shows_its_diff(live, page, client):
    (live.workspace / "prices.py").write_text(PRICES)
    code = "def total(items):\n    return sum(price * count for price, count in items)"
    edit = {"type": "replace_def", "filePath": str(live.workspace / "prices.py"), "name": "total", "code": code}
    assert client.call("edit_files", edits=[edit])["ok"]
    page.click(".line", "edited prices.py")
    page.shows("+    return sum(price * count", ".diff .added")


def test_search_and_filters_find_rows(page, client):
    evaluate(client, "1 / 0")
    evaluate(client, "'needle in ' + 'the hay'")
    page.shows("needle", "#rows")
    page.press("/")
    page.type("NEEDLE")
    page.until("document.querySelectorAll('.row').length === 1")
    page.press("Escape")
    page.until("document.querySelectorAll('.row').length > 1")
    # A row contains only the start of a long text. All of it is requested from the log.
    evaluate(client, f"2 ** 9  # {'.' * 3000} at the very end")
    page.press("/")
    page.type("the Very end")
    page.until(f"{row('2 ** 9')} && document.querySelectorAll('.row').length === 1", "the row found by the server")
    page.press("Escape")
    page.click(".filter", "Errors")
    page.until("[...document.querySelectorAll('.row')].every(row => row.classList.contains('failed'))")


def test_datalog_queries_are_answered_and_a_row_leads_to_its_evaluation(page, client):
    evaluate(client, "'the answer is ' + str(7 * 6)")
    page.press("2")
    page.click(".lead", "Which result belongs to which code?")
    page.shows("'the answer is 42'", "#panel table")
    page.click("#panel td .lead", "the answer is")
    page.until(f"{row('the answer is')}?.classList.contains('open')", "the row of the evaluation")
    page.press("2")
    page.run("document.querySelector('textarea').value = '[:find'")
    page.click("#panel button", "Run")
    page.shows("expected `]`", "#panel .error")


def test_the_query_examples_are_those_of_the_log_reference(served_page):
    log = (Path(codriver.features.page.__file__).parents[4] / "docs" / "reference" / "log.md").read_text()
    rows = log.partition("<!-- queries -->")[2].partition("<!-- /queries -->")[0].strip().splitlines()[2:]
    cells = [[cell.strip().strip("`") for cell in line.strip().strip("|").split(" | ")] for line in rows]
    assert served_page.call("examples")["examples"] == [[*cell, ""][:3] for cell in cells]


def test_handoff_runs_and_history_are_separate_views(page, client):
    evaluate(client, "'for the history'")
    page.press("3")
    page.shows("REPLs", "#panel")
    page.press("4")
    page.shows("No earlier run is stored yet", "#panel")
    page.press("5")
    page.shows("'for the history'", "#panel")
    page.shows("codriver forget history", "#panel code")
    page.press("Escape")
    page.until("!document.querySelector('#live').hidden")


def test_keyboard_shortcuts_move_open_and_show_help(page, client):
    for number in range(3):
        evaluate(client, f"'row {number}'")
    page.shows("'row 2'", "#rows")
    page.press("k")
    page.press("k")
    assert page.run("document.activeElement.innerText").count("'row 1'")
    page.press("j")
    page.press("Enter")
    page.until("document.activeElement.getAttribute('aria-expanded') === 'true'")
    page.press("Escape")
    page.until("!document.querySelector('.detail')")
    page.press("?")
    page.until("document.querySelector('#help').open")
    page.press("Escape")
    page.until("!document.querySelector('#help').open")


def test_screen_readers_get_a_list_with_described_rows(page, client):
    evaluate(client, "2 / 0")
    page.shows("2 / 0", "#rows")
    page.until(f"{row('2 / 0')}.classList.contains('failed')")
    nodes = page.request("Accessibility.getFullAXTree")["nodes"]
    roles = [
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
    ]
    assert ("list", "Activity") in roles
    assert sum(role == "listitem" for role, _ in roles) >= page.run("document.querySelectorAll('.row').length")
    names = [name for role, name in roles if role == "button"]
    assert any(name.startswith("failed, by claude-code, in py, 2 / 0, ZeroDivisionError") for name in names)
    wordless = "[...document.querySelectorAll('button:not([aria-label])')].filter(one => !one.innerText.trim())"
    nameless = f"{wordless}.filter(one => !one.querySelector('img')?.alt)"
    assert page.run(f"{nameless}.filter(one => one.checkVisibility()).map(one => one.outerHTML)") == []
    sizes = page.run("[...document.querySelectorAll('.row')].map(one => [one.ariaPosInSet, one.ariaSetSize])")
    assert all(int(place) <= int(size) for place, size in sizes)


# Contrast of every text with what is behind it. Source: WCAG 2.2, 1.4.3 and "relative luminance".
CONTRAST = """(() => {
  const part = (one) => { one /= 255; return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; };
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const seen = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = seen(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  for (const one of document.querySelectorAll('body *')) {
    const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || !one.checkVisibility()) continue;
    const pair = [light(seen(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => b - a);
    const found = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (found < 4.5) bad.push([one.className, one.innerText.slice(0, 30), found]);
  }
  return bad;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser, served_page, client, scheme):
    evaluate(client, "print('to be read')\n1 / 0")
    with browser.page(served_page.address, prefers_color_scheme=scheme) as page:
        page.shows("to be read", "#rows")
        page.click(".line", "to be read")
        page.shows("Error", ".detail")
        assert page.run(CONTRAST) == []


def test_nothing_is_wider_than_a_phone_screen(browser, served_page, client):
    evaluate(client, f"'{'wide' * 500}'")
    with browser.page(served_page.address, width=360, height=640) as page:
        page.shows("wide", "#rows")
        page.click(".line", "wide")
        page.shows("Result", ".detail")
        assert page.run("document.documentElement.scrollWidth") <= 360
        assert page.run("[...document.querySelectorAll('.line')].every(one => one.offsetHeight >= 44)")


def test_animations_are_disabled_if_the_user_prefers_reduced_motion(browser, served_page):
    moving = "getComputedStyle(document.querySelector('.dot')).animationName"
    with browser.page(served_page.address, prefers_reduced_motion="reduce") as page:
        page.until("Boolean(document.querySelector('.dot'))")
        page.run("document.querySelector('.chip').className = 'chip busy'")
        assert page.run(moving) == "none"


def test_twenty_thousand_rows_use_few_elements(page):
    """The page's own modules, with generated rows: only visible rows are in the document, and elements are reused."""
    found = page.run("""(async () => {
      const { Feed } = await import('/feed.js'), { List } = await import('/list.js');
      const scroll = document.createElement('div'), holder = document.createElement('div');
      scroll.style.cssText = 'height: 600px; overflow-y: auto';
      holder.style.position = 'relative';
      scroll.append(holder);
      document.body.append(scroll);
      let made = 0;
      const list = new List(scroll, holder, {
        heightOf: () => 34,
        drop: () => 0,
        fill: (element, row) => { element.textContent = row.text; },
        make: () => {
          made += 1;
          const one = document.createElement('div');
          one.style.position = 'absolute';
          return one;
        },
      });
      const feed = new Feed();
      for (let line = 0; line < 21000; line += 500)
        feed.merge({ now: 0, rows: Array.from({ length: 500 }, (_, n) =>
          ({ id: `e${line + n}`, line: line + n, text: `row ${line + n}`, newOutput: 'x'.repeat(5000) })) });
      const frame = () => new Promise(requestAnimationFrame);
      list.set(feed.rows);
      await frame(); await frame();
      const seen = () => [...holder.children].map((one) => one.textContent);
      const atEnd = seen();
      for (let at = 0; at <= list.height; at += 20000) { scroll.scrollTop = at; list.draw(); }
      scroll.scrollTop = 0; list.draw();
      const atStart = seen();
      scroll.remove();
      const { rows, dropped } = feed;
      return { rows: rows.length, dropped, kept: rows[0].output.length, made, elements: atEnd.length,
        last: atEnd.at(-1), first: atStart[0] };
    })()""")
    assert found["rows"] == 20_000
    assert found["dropped"] == 1_000
    assert found["kept"] <= 1_400
    assert found["elements"] < 60
    assert found["made"] < 120
    assert (found["first"], found["last"]) == ("row 1000", "row 20999")


def test_only_scrolling_by_the_reader_stops_following_the_end_of_the_list(page):
    """The list shrinks while it scrolls by itself, as when a header grows; then a reader scrolls up, and back."""
    found = page.run("""(async () => {
      const { List } = await import('/list.js');
      const scroll = document.createElement('div'), holder = document.createElement('div');
      scroll.style.cssText = 'height: 600px; overflow-y: auto';
      holder.style.position = 'relative';
      scroll.append(holder);
      document.body.append(scroll);
      const made = () => Object.assign(document.createElement('div'), { style: 'position: absolute' });
      const list = new List(scroll, holder, { heightOf: () => 34, drop: () => 0, fill: () => 0, make: made });
      const frames = async () => { for (let n = 0; n < 4; n++) await new Promise(requestAnimationFrame); };
      list.set(Array.from({ length: 100 }, () => ({})));
      requestAnimationFrame(() => { scroll.style.height = '400px'; });
      await frames();
      const found = [list.follows, scroll.scrollTop + scroll.clientHeight];
      scroll.scrollTop -= 100;
      await frames();
      found.push(list.follows);
      list.set([...list.rows, {}]);
      await frames();
      found.push(scroll.scrollTop);
      scroll.scrollTop = 9999;
      await frames();
      found.push(list.follows);
      // A row is opened and closed where all of the list can be seen: nothing scrolls, and its reader is at the end.
      list.set(list.rows.slice(0, 3));
      await frames();
      list.follows = false;
      list.followIfAtEnd();
      await frames();
      found.push(list.follows);
      scroll.remove();
      return found;
    })()""")
    assert found == [True, 3400, False, 2900, True, True]


STOPPED = "The server has stopped. Run `codriver watch --web`."


def test_a_page_reports_that_its_server_ended_and_then_sends_only_identity_challenges(browser, tmp_path):
    from live_server import serving  # noqa: PLC0415  # the module has one of its own

    with serving(tmp_path) as live, live.client() as client:
        served = opened(live)
        evaluate(client, "'a row of it'")
        client.begin_call("evaluate_code", code="input('typed? ')")
        with browser.page(served.address) as page:
            page.shows("a row of it", "#rows")
            page.click(".alive .line", "typed?")
            page.until("Boolean(document.querySelector('.answer input'))")
            requested = len(page.requested)
            live.process.kill()
            page.until(
                f"document.querySelector('#connection').innerText === {json.dumps(STOPPED)}", "the end of the server"
            )
            with serving(tmp_path, "--repl", "none") as other:
                opened(other)
                page.run("document.querySelector('.answer input').focus()")
                page.type("my secret")
                page.press("Enter")
                page.shows(STOPPED, ".detail")
                page.click("[role=tab]", "Handoff")
                page.shows(STOPPED, "#panel")
                page.until("document.querySelector('#another').hidden")
                tried = until(lambda: [*page.requested[requested:]][1:], "two challenges")
                assert set(tried) == {f"{served.origin}/prove"}
                assert page.text("#connection") == STOPPED


def test_a_disconnected_page_resumes_once_the_server_proved_its_identity(browser, served_page, client):
    """A forwarded port is gone for a while, as with ssh, and another program answers there meanwhile."""
    with contextlib.closing(Forwarding(served_page.port)) as forwarding:
        address = served_page.address.replace(f":{served_page.port}/", f":{forwarding.port}/")
        with browser.page(address) as page:
            page.shows("live", "#connection")
            forwarding.cut()
            page.until(
                f"document.querySelector('#connection').innerText === {json.dumps(STOPPED)}", "the lost connection"
            )
            requested = len(page.requested)
            with contextlib.closing(Liar(forwarding.port)) as liar:
                until(lambda: len(liar.requests) >= 3, "three challenges")
                assert page.text("#connection") == STOPPED
            sent = "".join(liar.requests)
            assert served_page.token not in sent
            assert sent.count("POST /prove ") == len(liar.requests)
            assert set(page.requested[requested:]) == {f"http://{served_page.host}:{forwarding.port}/prove"}
            evaluate(client, "'meanwhile ' + 'evaluated'")
            forwarding.listen()
            page.shows("live", "#connection")
            page.shows("'meanwhile evaluated'", "#rows")


class TrapPage(http.server.BaseHTTPRequestHandler):
    """A page on another port of this machine that tries to attack the page and records all that it receives."""

    received: ClassVar[list[str]] = []
    text = ""

    def do_GET(self):
        self.received.append(f"{self.path} {self.headers}")
        text = self.text.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def test_a_page_on_another_local_port_gets_no_token(browser, served_page):
    trap = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TrapPage)
    TrapPage.text = f"<iframe src='{served_page.origin}/' onload='framed = true'></iframe>"
    threading.Thread(target=trap.serve_forever, daemon=True).start()
    other = f"http://{served_page.host}:{trap.server_port}/"
    try:
        with browser.page(served_page.address) as page:
            page.shows("live", "#connection")
            page.run(f"fetch({json.dumps(other)}, {{ mode: 'no-cors' }}).catch(() => 0)")
            assert not TrapPage.received, "the page's policy lets it ask nobody else"
            page.run(f"location.href = {json.dumps(other)}")
            page.until(f"location.href === {json.dumps(other)}")
            page.until("typeof framed !== 'undefined' || document.readyState === 'complete'")
            assert page.run("sessionStorage.length + document.cookie.length") == 0
            inner = "(() => { try { return frames[0].sessionStorage.token } catch (e) { return '' } })()"
            assert page.run(inner) in ("", None)
        assert TrapPage.received
        assert served_page.token not in "".join(TrapPage.received)
        assert not any("ookie" in item or "odriver" in item for item in TrapPage.received)
    finally:
        trap.shutdown()
        trap.server_close()


SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='top.hacked=1'><script>top.hacked=1</script></svg>"
MARKUP = "<img src=x onerror='hacked=1'><script>hacked=1</script><a href='javascript:hacked=1'>go</a>"
HOSTILE = f"""
import base64, sys
markup = {MARKUP!r}
class Svg:
    def __repr__(self):
        return "data:image/svg+xml;base64," + base64.b64encode({SVG!r}.encode()).decode()
class Html:
    def _repr_html_(self):
        return markup + "<meta http-equiv=refresh content='0;url=//evil.example'><form action=//evil.example><input>" \\
            "<style>@import '//evil.example/x.css'; body {{ background: url(//evil.example/y.png) }}</style>"
print(markup); print("\\x1b[31mred\\x1b]0;title\\x07 \\u202eesrever\\u2066 \\x00\\x9b31m")
print("x" * 10_000_000, file=sys.stderr)
"""


def test_hostile_content_runs_no_script_sends_no_request_and_breaks_no_layout(live, page, client):
    evaluate(client, HOSTILE)
    for code in ("Svg()  # 1", "Html()  # 2", "markup  # 3", "raise ValueError(markup + '\\u202e' + 'y' * 9000)  # 4"):
        evaluate(client, code)
    name = "<img src=x onerror=hacked=1>.py"
    (live.workspace / name).write_text("1")
    client.call("load_file", filePath=str(live.workspace / name))
    with live.client(name=MARKUP) as other:
        evaluate(other, "'by another'")
        page.shows("'by another'", "#rows")
        for words in ("# 1", "# 2", "# 3", "# 4", "import base64", name):
            page.click(".line", words)
            page.until(f"Boolean({row(words)}?.querySelector('.detail .about'))", f"{words} to be open")
            page.until(f"{row(words)}.querySelector('.detail').offsetWidth <= innerWidth")
            if words == "# 2":
                page.until(f"Boolean({row(words)}.querySelector('iframe'))", "the frame")
            if words == "# 3":
                assert "<script>" in page.run(f"{row(words)}.querySelector('.detail').innerText")
            page.press("Escape")
        for view in "2345":
            page.press(view)
            time.sleep(0.1)
        page.press("1")
        # Direction marks and escape characters printed by a program do not appear in the text of the page.
        assert page.run("!/[\\u202a-\\u202e\\u2066-\\u2069\\u001b]/.test(document.body.innerText)")
    assert page.run("typeof hacked === 'undefined' && typeof top.hacked === 'undefined'")
    assert page.run("[...document.images].every(one => one.src.startsWith('blob:'))")
    assert page.run("document.querySelectorAll('a, form[action], #rows script, meta[http-equiv]').length") == 0
    assert page.run("document.title").endswith("· codriver")
    assert not any("evil" in url for url in page.requested)
    # The browser reports as errors what the policies of a frame refuse.
    page.wrong = [item for item in page.wrong if "frame/" not in json.dumps(item) and "sandbox" not in json.dumps(item)]


def test_hostile_names_are_plain_text_in_rows_and_header(page, client):
    """The server rejects such names for people and sessions, but the page does not rely on that."""
    assert evaluate(client, "1", who=MARKUP)["reason"] == "bad-who"
    name = f"{MARKUP}\u202e\u001b[31m{'w' * 5000}"
    refusals = page.run(f"""(async () => {{
      const {{ show }} = await import('/header.js'), {{ fillRow, makeRow }} = await import('/row.js');
      const name = {json.dumps(name)}, row = makeRow();
      show({{ repls: [{{ key: name, dialect: name, title: name, words: name, state: 'busy', queue: 1, id: name }}],
        clients: [name], problems: [name], isSearching: false }}, 0);
      fillRow(row, {{ id: name, key: name, who: name, where: name, text: name, file: name, names: name, error: name,
        output: name, status: 'failed', kind: 'load', line: 1, at: 1 }}, 0, 0);
      document.getElementById('rows').append(row);
      const told = [row.innerText.includes('<script>'), document.getElementById('repls').innerText.includes('<script>'),
        /[\u202a-\u202e\u001b]/.test(document.body.innerText), document.documentElement.scrollWidth <= innerWidth];
      row.remove();
      return told;
    }})()""")
    assert refusals == [True, True, False, True]
    assert page.run(
        "typeof hacked === 'undefined' && document.querySelectorAll('a, #repls img, #repls script').length === 0"
    )


def test_markdown_printed_by_a_program_contains_no_links(page):
    blocks = [
        {"tag": "h3", "spans": [["", "A "], ["code", "<b>"]]},
        {"tag": "p", "spans": [["", "go (javascript:alert(1))"]]},
        {"tag": "table", "head": ["<i>"], "rows": [["1"]]},
        {"tag": "ul", "items": [[["strong", "x"]]]},
    ]
    script = f"import('/text.js').then(({{ markdown }}) => markdown({json.dumps(blocks)}).outerHTML)"
    assert page.run(script) == (
        '<div class="markdown"><h3>A <code>&lt;b&gt;</code></h3><p>go (javascript:alert(1))</p>'
        '<div class="scrolls" tabindex="0"><table><thead><tr><th scope="col">&lt;i&gt;</th></tr></thead>'
        "<tbody><tr><td>1</td></tr></tbody></table></div><ul><li><strong>x</strong></li></ul></div>"
    )


def test_the_page_never_builds_markup_from_text():
    files = sorted(ASSETS_DIRECTORY.iterdir())
    text = "".join(file.read_text() for file in files)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc", "http:", "//cdn"):
        assert word not in text.replace('xmlns="http://www.w3.org/2000/svg"', ""), word
    assert "style=" not in (ASSETS_DIRECTORY / "index.html").read_text()
