"""One failure is one error event, whoever reports it: an epoch, a request, a log, or the end of its thread or task."""

import asyncio
import json
import logging
import pickle
import threading

import pytest
from seam_shop import query

import codriver_seam as seam


def raised(error):
    """Return an exception as it is caught."""
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.fixture
def hooks(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    seam.watch_threads()


@pytest.fixture
def logger():
    made = logging.getLogger("shop.failures")
    seam.watch_logging(made)
    yield made
    made.handlers.clear()


def in_thread(function, name="orders"):
    thread = threading.Thread(target=function, name=name)
    thread.start()
    thread.join()


def errors():
    return [event for event in query("trace", raw=True)["events"] if event["opType"] == "error"]


def test_a_failure_that_ends_its_thread_is_one_error_with_all_details(shop, hooks):
    def work():
        with seam.epoch("shop", "order/ship"):
            shop.handle(["lost"])

    in_thread(work)
    [line] = query("issues")["lines"]
    [event] = errors()
    [epoch] = query("epochs")["epochs"]
    assert "error LookupError shop order/ship d1 message=lost at=" in line
    assert (event["tags"]["epoch"], event["tags"]["thread"]) == (epoch["epochId"], "orders")
    assert event["source"] == "threading"


def test_issues_count_each_failure_once_regardless_of_how_often_it_is_reported(shop, hooks):
    def work():
        with seam.epoch("shop", "order/ship"):
            shop.handle(["lost"])

    for _ in range(3):
        in_thread(work)
    [line] = query("issues")["lines"]
    assert line.endswith(" \N{MULTIPLICATION SIGN}3")
    assert len(errors()) == 3


def test_a_logged_failure_is_one_error_with_the_log_message(shop, logger):
    def handle():
        try:
            shop.handle(["lost"])
        except LookupError:
            logger.exception("no such %s", "order")
            raise

    with pytest.raises(LookupError), seam.epoch("shop", "order/ship"):
        handle()
    [event] = errors()
    assert (event["operation"], event["frame"], event["eventId"]) == ("LookupError", "shop", "order/ship")
    assert (event["tags"]["logger"], event["tags"]["said"]) == ("shop.failures", "no such order")
    assert f"{__file__}:" in event["tags"]["caught"]


def test_an_exception_raised_from_another_counts_as_the_same_failure():
    error = raised(KeyError("tea"))
    seam.note_error(error, sql="select 1")
    outer = RuntimeError("no order")
    outer.__cause__ = error
    seam.note_error(outer, source="wsgi")
    [event] = errors()
    assert event["operation"] == "KeyError"
    assert (event["tags"]["sql"], event["tags"]["raised"]) == ("select 1", "RuntimeError: no order")


def test_an_exception_raised_while_handling_another_counts_as_a_separate_failure():
    error = raised(KeyError("tea"))
    seam.note_error(error)
    other = RuntimeError("no order")
    other.__context__ = error
    seam.note_error(other)
    assert [event["operation"] for event in errors()] == ["KeyError", "RuntimeError"]


def test_one_exception_raised_in_two_dispatches_counts_as_two_failures(shop):
    kept = LookupError("the only one")
    for _ in range(2):
        with pytest.raises(LookupError), seam.epoch("shop", "order/ship"):
            raise kept
    assert query("issues")["lines"][0].endswith("\N{MULTIPLICATION SIGN}2")


def test_one_exception_that_ends_two_threads_counts_as_two_failures(hooks):
    kept = LookupError("the only one")

    def work():
        raise kept

    in_thread(work)
    in_thread(work)
    assert len(errors()) == 2


def test_a_failure_in_epochs_of_two_frames_is_one_error_naming_both(shop):
    seam.frame("cart", lambda: 0)
    with pytest.raises(LookupError), seam.epoch("cart", "cart/buy"), seam.epoch("shop", "order/place"):
        shop.handle(["lost"])
    [event] = errors()
    assert (event["frame"], event["eventId"], event["tags"]["within"]) == ("shop", "order/place", "cart/buy")


def test_a_failed_task_is_one_error_even_if_the_loop_logs_it(shop):
    async def fail():
        with seam.epoch("shop", "order/ship"):
            shop.handle(["lost"])

    async def main():
        loop = asyncio.get_running_loop()
        seam.watch_asyncio(loop)
        task = loop.create_task(fail())
        await asyncio.wait([task])
        del task
        await asyncio.sleep(0)

    reported = logging.getLogger("asyncio")
    seam.watch_logging(reported)
    try:
        asyncio.run(main())
    finally:
        reported.handlers.clear()
    [event] = errors()
    assert event["tags"]["logger"] == "asyncio"
    assert event["tags"]["epoch"]


def watched_by(*, is_wsgi, fail):
    """Run a request of an application that fails."""
    if is_wsgi:
        app = seam.watch_wsgi(lambda environ, start: fail())
        with pytest.raises(LookupError):
            app({"REQUEST_METHOD": "POST", "PATH_INFO": "/orders"}, None)
        return

    async def inner(scope, receive, send):
        fail()

    with pytest.raises(LookupError):
        asyncio.run(seam.watch_asgi(inner)({"type": "http", "method": "POST", "path": "/orders"}, None, None))


@pytest.mark.parametrize("is_wsgi", [True, False])
def test_a_request_failing_in_an_epoch_is_recorded_as_one_error_besides_its_http_event(shop, is_wsgi):
    def fail():
        with seam.epoch("shop", "order/place"):
            shop.handle(["lost"])

    watched_by(is_wsgi=is_wsgi, fail=fail)
    [event] = errors()
    assert (event["frame"], event["eventId"], event["dispatchId"]) == ("shop", "order/place", 1)
    assert event["tags"]["within"] == "/orders"
    assert event["tags"]["status"] == 500
    request = query("trace", raw=True)["events"][-1]
    assert (request["opType"], request["operation"], request["tags"]) == ("http", "POST", {"status": 500})


def test_a_server_error_response_without_an_exception_is_an_error():
    def inner(environ, start_response):
        start_response("503 Later", [])
        return []

    seam.watch_wsgi(inner)({"REQUEST_METHOD": "GET", "PATH_INFO": "/x"}, lambda status, headers: None)
    [event] = errors()
    assert (event["operation"], event["tags"]) == ("GET", {"status": 503})


def test_the_mark_on_an_exception_is_not_pickled():
    error = raised(LookupError("lost"))
    seam.note_error(error)
    assert b"codriver_seam." not in pickle.dumps(error)
    other = pickle.loads(pickle.dumps(error))
    assert str(other) == str(error)
    seam.note_error(other)
    assert len(errors()) == 2


def test_a_failure_evicted_from_the_ring_is_reported_again():
    error = raised(LookupError("lost"))
    seam.note_error(error)
    for _ in range(2000):
        seam.emit("log", "busy")
    seam.note_error(error)
    assert len(errors()) == 1


def test_an_exception_that_refuses_attributes_is_recorded_once():
    class StiffError(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    error = StiffError("stiff")
    seam.note_error(error)
    seam.note_error(error, source="wsgi")
    assert len(errors()) == 1


def test_a_group_of_one_exception_counts_as_the_same_failure_as_the_exception():
    error = raised(LookupError("lost"))
    seam.note_error(error)
    seam.note_error(ExceptionGroup("tasks", [error]))  # of Python 3.11
    seam.note_error(ExceptionGroup("tasks", [error, ValueError()]))  # as above
    assert [event["operation"] for event in errors()] == ["LookupError", "ExceptionGroup"]


def test_a_stream_of_errors_sends_each_failure_once_even_if_it_matches_the_filter_later(shop):
    written = []
    seam.call("subscribe", json.dumps({"topic": "error", "filter": {"source": "wsgi"}}), "null", written.append)
    seam.call("subscribe", json.dumps({"topic": "error"}), "null", written.append)
    error = raised(LookupError("lost"))
    seam.note_error(error)
    seam.note_error(error, source="wsgi")
    seam.note_error(error, thread="orders")
    last = raised(ValueError("last"))
    seam.note_error(last, source="wsgi")
    until = threading.Event()
    for _ in range(500):
        reported = [event["operation"] for text in tuple(written) for event in json.loads(text)["events"]]
        if reported.count("ValueError") == 2:
            break
        until.wait(0.02)
    assert sorted(reported) == ["LookupError", "LookupError", "ValueError", "ValueError"]


def test_library_warnings_about_the_application_are_issues_and_other_warnings_are_logs(logger, shop, tmp_path):
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text("def warn(logger): logger.warning('active'); logger.error('broken')")
    exec(compile(library.read_text(), str(library), "exec"), code := {})
    code["warn"](logger)
    assert [line.split()[1] for line in query("trace")["lines"]] == ["log", "error"]
    with seam.epoch("shop", "add"):
        code["warn"](logger)
    logger.warning("low on tea")
    assert [line.split()[1] for line in query("issues")["lines"]] == ["error", "warning", "error", "warning"]
