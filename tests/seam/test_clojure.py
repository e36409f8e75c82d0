"""The seam in Clojure and nbb: an agent reads and changes an application there as in Python."""

import json
import re

import pytest
from seam_lisp import ROOT, SEAM

TOKEN = "s3cr3t-token-of-ada"
ANN = {"who": "ann", "evaluation": "e1"}


@pytest.fixture
def shop(lisp):
    return lisp


def test_health_lists_frames_and_bands_and_changes_nothing(shop):
    first, second = shop.query("health"), shop.query("health")
    assert first == second
    assert first["frames"] == [":shop"]
    assert first["sessionId"] == json.loads(shop.run("@seam/session-id"))
    assert {name for name, reported in first["bands"].items() if reported is True} == {
        "inspect",
        "mutate",
        "stream",
        "epochs",
    }
    assert first["bands"]["machines"] == "no machine is registered"
    assert first["enabled"] is True
    assert first["issues"] == 0
    assert isinstance(first["pid"], int)


def test_a_disabled_seam_does_nothing_and_reports_that_it_is_disabled(shop):
    assert shop.run('(do (seam/forget!) (seam/emit! :log "x"))') == "0"
    assert shop.run("(seam/watch-atom! :shop shop/db)") == "nil"
    assert shop.run("(seam/epoch :shop :add 5)") == "5"
    assert shop.run("(do (swap! shop/db update :count inc) (seam/tap!) @seam/session-id)") == "nil"
    shop.refused("health", "not-enabled")
    assert shop.run("(seam/install!)") == "false"
    assert shop.run("(seam/install! false)") == "false"
    assert shop.run("(seam/install! true)") == "true"
    assert shop.query("health")["lastId"] == 0


def test_the_session_id_changes_with_each_start_but_not_with_a_reload(shop):
    known = shop.run("@seam/session-id")
    shop.run("(require 'codriver.seam :reload)")
    assert shop.run("[(seam/install! true) @seam/session-id]") == f"[true {known}]"
    assert shop.query("state", path="[:count]")["value"] == "0"


def test_a_frame_must_be_named_unless_it_is_the_only_one(shop):
    shop.refused("state", "no-such-frame", frame=":shops")
    assert shop.query("state", frame="shop", path="count")["value"] == "0"
    shop.run("(seam/frame! :other {:get (fn [] 1)})")
    assert sorted(shop.refused("state", "ambiguous-frame")["frames"]) == [":other", ":shop"]
    before = shop.state()
    shop.refused("reset", "ambiguous-frame", value="{:count 1}")
    assert shop.state() == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("[:user :name]", '"Ada"'),
        ("user.name", '"Ada"'),
        ("orders.1.sku", "7"),
        ("(:orders 0)", '"x"'),
        (":count", "0"),
        ('["by text" 3]', ":three"),
        ("by text.3", ":three"),
    ],
)
def test_a_part_of_the_state_is_found_by_its_path(shop, path, value):
    shop.run('(swap! shop/db assoc :orders (list "x" {:sku 7}) "by text" {3 :three})')
    assert shop.query("state", path=path)["value"] == value


def test_a_path_that_does_not_exist_is_refused_with_the_longest_existing_prefix(shop):
    answer = shop.refused("state", "path-not-found", path="user.age.days")
    assert "[:user]" in answer["hint"]
    assert ":name" in answer["hint"]
    shop.refused("state", "path-not-found", path="[:user #=(+ 1 2)]")
    shop.refused("state", "path-not-found", path="[:count :x]")


def test_a_record_is_read_by_its_fields_and_references_are_not_followed(shop):
    shop.run("(do (defrecord Cart [items]) (reset! shop/db {:cart (->Cart [1 2]) :ref (atom {:token 1})}))")
    assert shop.query("state", path=":cart")["value"].endswith("Cart{:items [1 2]}")
    assert shop.query("state", path="cart.items.1")["value"] == "2"
    assert shop.query("state", path=":ref")["value"].startswith("#object[")
    assert "token" not in shop.query("state")["value"]


def test_a_large_value_is_replaced_by_a_marker_and_fetched_by_the_path_in_the_marker(shop):
    shop.run('(swap! shop/db assoc :blob (apply str (repeat 10000 "ä\\"\\n")) :rows (vec (map vector (range 500))))')
    answer = shop.query("state")
    assert '#codriver/elided {:kind "string", :count 30000, :path [:blob]}' in answer["value"]
    assert '#codriver/elided {:kind "vector", :count 500, :path [:rows]}' in answer["value"]
    assert len(answer["value"]) < 400
    assert answer["elided"] == 2
    parts, start = [], 0
    while start < 50_002:
        part = shop.query("state", path="[:blob]", includeLarge=True, maxChars=20_000, **{"from": start})
        assert part["total"] == 50_002
        parts.append(part["value"])
        start += len(part["value"])
    assert "".join(parts) == '"' + 'ä\\"\\n' * 10_000 + '"'
    shop.run("(reset! shop/db (nth (iterate vector 1) 30))")
    assert '#codriver/elided {:kind "vector", :count 1' in shop.query("state")["value"]


def test_characters_outside_the_basic_plane_are_counted_as_in_python(shop):
    shop.run('(reset! shop/db (apply str (repeat 100 "😀x")))')
    first = shop.query("state", maxChars=101)
    assert (first["value"], first["total"]) == ('"' + "😀x" * 50, 202)
    rest = shop.query("state", maxChars=200, **{"from": 101})
    assert rest["value"] == "😀x" * 50 + '"'


def test_infinite_sequences_are_read_without_hanging(shop):
    shop.run("(do (reset! shop/db {:numbers (range) :more (repeat {:x 1})}) nil)")
    assert ':count "more than 50", :path [:numbers]' in shop.query("state")["value"]
    assert ':count "more than 100000"' in shop.query("state", path=":numbers", includeLarge=True)["value"]
    assert shop.query("state", path="numbers.70000")["value"] == "70000"
    shop.refused("state", "path-not-found", path="numbers.x")
    shop.run("(do (swap! shop/db assoc :numbers (map inc (range))) nil)")
    assert shop.query("diff")["count"] == 100


def test_the_text_of_a_large_state_has_a_maximum_length(shop):
    shop.run('(reset! shop/db (vec (repeat 50 (vec (repeat 50 (vec (repeat 50 "word word word")))))))')
    assert len(shop.query("state")["value"]) < 80_000


def test_no_accessor_returns_a_sensitive_value(shop):
    shop.run(f"""
        (seam/in-epoch :shop :rename (fn []
          (swap! shop/db assoc-in [:user :token] "{TOKEN}-new\\"quoted\\n-\\u001b-end")
          (seam/emit! :log :auth {{:message (str "Bearer {TOKEN} " (get-in @shop/db [:user :token]))
                                   :of [(get-in @shop/db [:user :token])]}})))
        """)
    shop.run(f'(seam/emit! :error :auth {{:message (str (apply str (repeat 292 "x")) "{TOKEN}")}})')
    shop.refused("dispatch", "handler-failed", event="[:half]", sync=True)
    requests = [
        ("health", {}), ("state", {}), ("state", {"path": "user.token"}), ("state", {"path": "user"}), ("diff", {}),
        ("epochs", {}), ("trace", {}), ("trace", {"raw": True}), ("issues", {}),
        ("reset", {"value": f'{{:user {{:token "{TOKEN}-bad"}}}}'}), ("trace", {}), ("issues", {}),
    ]  # fmt: skip
    for name, arguments in requests:
        text = shop.call(name, arguments)
        assert TOKEN[:6] not in text, name
        assert "quoted" not in text, name
    assert shop.query("state", path="user.token")["value"] == ":codriver/redacted"
    assert shop.query("state")["redacted"] == 1
    assert shop.run(f'(seam/show {{:of "{TOKEN}"}})') == '"{:of \\"<redacted>\\"}"'
    assert TOKEN in shop.query("state", includeSensitive=True)["value"]


def test_a_star_in_a_sensitive_path_hides_the_field_in_every_element(shop):
    shop.run("""
        (let [user (fn [n] {:name n :token (str "token-of-" n "-1")})
              users {:ada (user "ada") :bob (user "bob")}]
          (seam/frame! :users {:get (fn [] {:users users :list (vec (vals users))})
                               :sensitive [[:users :* :token] [:list :* :token]]}))
        """)
    answer = shop.query("state", frame=":users")
    assert answer["redacted"] == 4
    assert "token-of" not in answer["value"]


def test_epochs_that_changed_a_path_are_found(shop):
    shop.run("(swap! shop/db update :count inc)")
    shop.run('(swap! shop/db assoc-in [:user :name] "Bob")')
    shop.run("(swap! shop/db dissoc :user)")
    assert [row["changes"] for row in shop.query("epochs", path="user.name")["epochs"]] == [
        [{"op": "changed", "path": "[:user :name]", "before": '"Ada"', "after": '"Bob"'}],
        [{"op": "removed", "path": "[:user :name]", "before": '"Bob"'}],
    ]
    assert shop.query("epochs", path="[:count]")["total"] == 1
    assert shop.query("epochs", path="[:orders]")["total"] == 0
    shop.refused("epochs", "path-not-found", path="[:nothing]")


def test_each_change_of_an_atom_is_an_epoch_with_its_changes(shop):
    shop.run("(swap! shop/db update :count + 2)")
    shop.run("(swap! shop/db assoc :orders [1] :new 3)")
    first, second = shop.query("epochs")["epochs"]
    assert (first["eventId"], first["outcome"], first["origin"]) == ("changed", "ok", "app")
    assert shop.query("diff", epochId=first["epochId"])["changes"] == [
        {"op": "changed", "path": "[:count]", "before": "0", "after": "2"}
    ]
    assert {row["path"] for row in shop.query("diff")["changes"]} == {"[:orders 0]", "[:new]"}
    both = shop.query("diff", **{"from": first["epochId"], "to": second["epochId"]})
    assert both["count"] == 3
    shop.refused("diff", "no-such-epoch", epochId=999)
    shop.run("(swap! shop/db identity)")
    assert shop.query("epochs")["count"] == 2


def test_an_epoch_contains_all_changes_of_its_cascade(shop):
    shop.run("""
        (seam/epoch :shop :order/add
          (swap! shop/db update :count inc)
          (seam/epoch :shop :inner (swap! shop/db update :count inc)))
        """)
    [row] = shop.query("epochs")["epochs"]
    assert row["eventId"] == ":order/add"
    assert shop.query("diff")["changes"] == [{"op": "changed", "path": "[:count]", "before": "0", "after": "2"}]
    assert shop.query("epochs", filter={"eventId": "order/add"})["count"] == 1
    assert shop.query("epochs", filter={"outcome": "error"})["count"] == 0


def test_a_diff_distinguishes_equal_and_different_values(shop):
    shop.run("(reset! shop/db {:a 1 :b #{1} :c [1 2] :d {:x 1} :e nil})")
    shop.run('(reset! shop/db {:a "1" :b #{2} :c (list 1 2) :d {:x 1 :y 2} :f nil})')
    assert {(row["op"], row["path"]) for row in shop.query("diff")["changes"]} == {
        ("changed", "[:a]"), ("changed", "[:b]"), ("added", "[:d :y]"), ("removed", "[:e]"), ("added", "[:f]"),
    }  # fmt: skip


def test_without_an_epoch_a_diff_is_refused_rather_than_empty(shop):
    shop.refused("diff", "band-missing")
    shop.refused("machines", "band-missing")


def test_a_failing_state_getter_does_not_abort_the_request(shop):
    shop.run('(seam/frame! :broken {:get (fn [] (throw (ex-info "no disk" {})))})')
    shop.run("(seam/epoch :broken :x 1)")
    assert "no disk" in shop.refused("state", "accessor-failed", frame=":broken")["hint"]
    assert "no disk" in shop.refused("diff", "accessor-failed", frame=":broken")["hint"]
    assert shop.query("epochs", frame=":broken")["count"] == 1


def test_an_event_is_printed_on_one_line_whatever_it_contains(shop):
    shop.run(
        '(seam/emit! :log :app {:message "a\\nforged 9 error\\u001b[2J\\u202e" :list [1 "y" {:z 1}] :map {:k {}}})'
    )
    [line] = shop.query("trace")["lines"]
    assert line == '1 log :app message=a\\nforged 9 error\\x1b[2J\\u202e list=[1 "y" <map>] map={:k <map>}'


def test_equal_failures_are_reported_as_one_issue(shop):
    for _ in range(3):
        shop.refused("dispatch", "handler-failed", event="[:bad]", sync=True)
    shop.run('(do (seam/emit! :warning :disk {:message "full"}) (seam/emit! :log :disk {:message "fine"}))')
    first, second = shop.query("issues")["lines"]
    assert "error ExceptionInfo :shop :bad" in first
    assert first.endswith("\N{MULTIPLICATION SIGN}3")
    assert "warning :disk message=full" in second


def test_reading_produces_no_events(shop):
    shop.run("(seam/frame! :noisy {:get (fn [] (seam/emit! :log :read))})")
    for name in ("health", "state", "epochs", "trace", "issues", "handlers", "subscriptions"):
        shop.query(name, frame=":noisy")
    assert shop.query("trace")["total"] == 0


def test_handlers_are_listed_with_their_locations(shop):
    [row] = shop.query("handlers", kind="event")["handlers"]
    assert row["file"].endswith("tests/seam/clojure/shop.cljc")
    assert (row["kind"], row["id"], row["ns"], row["line"], row["doc"]) == (
        "event",
        ":add",
        "shop",
        10,
        "Adds to the count.",
    )
    assert shop.query("handlers", id=":none")["count"] == 0


def test_machines_are_listed_with_their_states(shop):
    shop.run("(seam/machine! :door (fn [] {:state :open}))")
    assert shop.query("machines")["machines"] == {":door": {"state": "{:state :open}"}}
    assert shop.query("machines", id="door")["count"] == 1


def test_an_unknown_accessor_or_filter_is_refused_with_a_list_of_valid_ones(shop):
    assert "trace" in shop.refused("nonsense", "no-such-accessor")["hint"]
    assert "sinceMs" in shop.refused("trace", "accessor-failed", filter={"sinceMS": 1})["hint"]
    shop.refused("trace", "no-such-predicate", filter={"pred": "(constantly true)"})


def test_the_trace_keeps_the_newest_events_and_reports_the_last_id(shop):
    shop.run("(dotimes [n 4500] (seam/emit! :log (str n)))")
    answer = shop.query("trace", limit=1)
    assert (answer["total"], answer["lastId"], answer["lines"]) == (2000, 4500, ["4500 log 4499"])
    assert shop.query("trace", filter={"since": 4499})["count"] == 1
    assert shop.query("health")["events"] == 2000


def test_a_synchronous_event_reports_the_changes_of_its_epoch(shop):
    answer = shop.query("dispatch", ANN, event="[:add 5]", sync=True)
    assert answer["mode"] == "sync"
    assert answer["changes"] == shop.query("diff", epochId=answer["epochId"])["changes"]
    assert answer["changes"] == [{"op": "changed", "path": "[:count]", "before": "0", "after": "5"}]
    [row] = shop.query("epochs")["epochs"]
    assert (row["origin"], row["dispatchId"]) == ("ann", answer["dispatchId"])
    assert shop.query("trace", filter={"origin": "e1"})["count"] == 2


def test_a_queued_event_is_found_by_its_dispatch_id(shop):
    shop.run("""
        (seam/watch-atom! :shop shop/db
          {:enqueue (fn [event] (swap! shop/queue conj (seam/bind shop/handle event)))})
        """)
    answer = shop.query("dispatch", ANN, event="[:add 1]")
    assert answer["mode"] == "queued"
    assert shop.run("(:count @shop/db)") == "0"
    shop.run("((peek @shop/queue))")
    [row] = shop.query("epochs")["epochs"]
    assert (row["dispatchId"], row["origin"]) == (answer["dispatchId"], "ann")
    assert shop.query("trace", filter={"dispatchId": answer["dispatchId"], "origin": "e1"})["count"] == 1
    shop.refused("dispatch", "no-dispatch", event="[:add 1]", sync=True)


def test_events_caused_by_the_application_itself_do_not_name_an_agent_as_origin(shop):
    shop.query("dispatch", ANN, event="[:add 1]", sync=True)
    shop.run("(shop/handle [:add 1])")
    assert [row["origin"] for row in shop.query("epochs")["epochs"]] == ["ann", "app"]


def test_a_failing_handler_reports_its_location_and_leaves_the_state_unchanged(shop):
    before = shop.state()
    answer = shop.refused("dispatch", "handler-failed", event="[:half]", sync=True)
    assert "ExceptionInfo: no stock for <redacted>" in answer["hint"]
    assert "restored" in answer["hint"]
    assert shop.state() == before
    assert shop.query("epochs")["epochs"][-1]["outcome"] == "error"
    # JavaScript tells no place of code that is interpreted.
    if shop.dialect == "jvm":
        assert re.search(r"/tests/seam/clojure/shop\.cljc:1[78]$", answer["at"])
        [line] = [line for line in shop.query("issues")["lines"] if "ExceptionInfo" in line]
        assert answer["at"] in line


def test_an_error_swallowed_by_the_handler_is_still_reported(shop):
    before = shop.state()
    assert "swallowed" in shop.refused("dispatch", "handler-failed", event="[:swallow]", sync=True)["hint"]
    assert shop.state() == before


@pytest.mark.parametrize(
    "event", [":add", "{:a 1}", "[]", "(slurp", "", "[:a] [:b]", "[" * 300, "#x/y [1]", "[#=(+ 1 1)]"]
)
def test_an_invalid_event_is_refused(shop, event):
    before = shop.state()
    shop.refused("dispatch", "not-an-event-vector", event=event, sync=True)
    assert shop.state() == before
    assert shop.run("@shop/queue") == "[]"


def test_a_frame_without_a_dispatch_function_refuses_events(shop):
    shop.run("(seam/frame! :plain {:get (fn [] 1)})")
    shop.refused("dispatch", "no-dispatch", frame=":plain", event="[:x]")
    shop.refused("restore", "read-only-frame", frame=":plain", epochId=1)
    shop.refused("reset", "read-only-frame", frame=":plain", value="1")


def test_each_of_the_last_fifty_epochs_can_be_restored(shop):
    shop.run("(dotimes [n 51] (seam/epoch :shop :add (shop/handle [:add 1])))")
    rows = shop.query("epochs", limit=100)["epochs"]
    assert len(rows) == 50
    for count, row in enumerate(rows, 2):
        assert shop.query("restore", epochId=row["epochId"])["ok"]
        assert shop.run("(:count @shop/db)") == str(count)
    assert shop.query("epochs", limit=100)["epochs"] == rows
    shop.refused("restore", "unknown-epoch", epochId=rows[0]["epochId"] - 3)
    shop.refused("restore", "unknown-epoch")
    assert shop.run("(:count @shop/db)") == "51"


def test_an_unrecorded_state_is_saved_before_it_is_replaced(shop):
    shop.run("(def held (atom {:n 0}))")
    shop.run("(seam/frame! :held {:get (fn [] @held) :set (fn [v] (reset! held v))})")
    shop.run("(seam/epoch :held :add (swap! held update :n inc))")
    [row] = shop.query("epochs", frame=":held")["epochs"]
    shop.run("(swap! held assoc :n 77)")
    answer = shop.query("restore", frame=":held", epochId=row["epochId"])
    assert shop.run("@held") == "{:n 1}"
    assert shop.query("restore", frame=":held", epochId=answer["undoneBy"])["ok"]
    assert shop.run("@held") == "{:n 77}"


def test_the_state_after_a_failed_event_cannot_be_restored(shop):
    shop.refused("dispatch", "handler-failed", event="[:bad]", sync=True)
    epoch = shop.query("epochs")["epochs"][0]["epochId"]
    assert f"The state before it is epoch {-epoch}" in shop.refused("restore", "non-ok-record", epochId=epoch)["hint"]


def test_an_event_can_be_undone_by_the_epoch_in_its_answer(shop):
    before = shop.state()
    answer = shop.query("dispatch", event="[:add 5]", sync=True)
    assert answer["undoneBy"] == -answer["epochId"]
    undone = shop.query("restore", ANN, epochId=answer["undoneBy"])
    assert shop.state() == before
    assert shop.query("restore", epochId=undone["undoneBy"])["ok"]
    assert shop.run("(:count @shop/db)") == "5"


def test_nothing_can_be_changed_while_an_event_is_handled(shop):
    shop.run("(shop/handle [:add 1])")
    [row] = shop.query("epochs")["epochs"]
    requested = (
        f'[(seam/call "restore" "{{:epochId {row["epochId"]}}}") (seam/call "reset" "{{:value \\"{{:count 3}}\\"}}")]'
    )
    text = shop.run(f"(seam/epoch :shop :slow {requested})")
    assert text.count("during-drain") == 2
    assert shop.run("(:count @shop/db)") == "1"


def test_an_invalid_value_is_refused_and_a_valid_one_can_be_undone(shop):
    before = shop.state()
    assert "no count" in shop.refused("reset", "schema-mismatch", value="{:x 1}")["hint"]
    shop.refused("reset", "schema-mismatch", value="{:count #object[1]}")
    assert shop.state() == before
    answer = shop.query("reset", ANN, value="{:count 9}")
    assert shop.state() == "{:count 9}"
    assert {row["op"] for row in shop.query("diff", epochId=answer["epochId"])["changes"]} == {"changed", "removed"}
    assert shop.query("restore", epochId=answer["undoneBy"])["ok"]
    assert shop.state() == before


@pytest.mark.parametrize("message", ["false", '"bad"', '(throw (ex-info "bad" {}))', "{:errors 1}"])
def test_a_validator_can_reject_in_several_ways(shop, message):
    shop.run(f"(seam/frame! :checked {{:get (fn [] 1) :set identity :validate (fn [_] {message})}})")
    shop.refused("reset", "schema-mismatch", frame=":checked", value="2")


def test_a_setter_failing_midway_leaves_the_state_unchanged(shop):
    shop.run("""
        (do (def disk (atom 1))
            (seam/frame! :disk {:get (fn [] @disk)
                                :set (fn [v] (reset! disk v) (when (= 2 v) (throw (ex-info "disk full" {}))))}))
        """)
    answer = shop.refused("reset", "accessor-failed", frame=":disk", value="2")
    assert "disk full" in answer["hint"]
    assert "restored" in answer["hint"]
    assert shop.run("@disk") == "1"


def test_a_refused_change_is_recorded_as_one_error_event_but_not_as_an_issue(shop):
    shop.refused("reset", "schema-mismatch", value="{}")
    assert [line.split()[1:3] for line in shop.query("trace")["lines"]] == [["error", "schema-mismatch"]]
    assert shop.query("issues")["total"] == shop.query("health")["issues"] == 0


def test_the_load_counter_changes_only_when_code_is_loaded(shop):
    assert [shop.query("probe")["buildTick"] for _ in range(10)] == [0] * 10
    shop.run("(seam/loaded!)")
    assert shop.query("probe") == {
        "ok": True,
        "probe": 11,
        "buildTick": 1,
        "sessionId": shop.query("health")["sessionId"],
    }
    assert shop.query("reset-for-test")["sessionId"] == shop.query("health")["sessionId"]
    assert shop.query("probe")["probe"] == 1


def test_the_seam_file_is_ascii_for_repls_that_lose_other_characters():
    assert (SEAM / "codriver" / "seam.cljc").read_text().isascii()


def test_the_clojure_example_in_the_documentation_works(lisp):
    page = (ROOT / "docs" / "reference" / "seam.md").read_text()
    [code] = re.findall(r"<!-- seam-clojure -->\n```clojure\n(.*?)```\n<!-- /seam-clojure -->", page, re.DOTALL)
    code = re.sub(r"; .*", "", code)
    lisp.run(f"(do (seam/forget!) (load-string {json.dumps(code)}) nil)" if lisp.dialect == "jvm" else "(seam/forget!)")
    if lisp.dialect == "nbb":
        lisp.run(f"(nbb.core/load-string {json.dumps(code)})")
    answer = lisp.query("dispatch", event="[:order/add 2]", sync=True)
    assert answer["changes"] == [{"op": "changed", "path": "[:count]", "before": "0", "after": "2"}]
    assert lisp.query("reset", value="{}")["reason"] == "schema-mismatch"
    assert lisp.query("state", path="user.token")["value"] == ":codriver/redacted"
    assert lisp.query("handlers")["handlers"][0]["id"] == ":order/add"
