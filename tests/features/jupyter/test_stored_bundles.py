"""Bundles are retained for a while, and read in parts by media type."""

from codriver.core.print_limits import PrintLimits, ValuePart
from codriver.features.jupyter.kernels.stored_bundles import StoredBundles
from codriver.repls.contract.events import Value

PAGE = {"text/plain": "<Page>", "text/html": "<b>hi</b>", "application/json": {"a": [1]}}


def read(stored, *path, start=0, **limits):
    return stored.read("e1", ValuePart(path, start, PrintLimits(**limits)))


def store(*bundles, **options):
    stored = StoredBundles(**options)
    for bundle in bundles:
        stored.store("e1", bundle)
    return stored


def test_a_stored_value_is_read_by_the_name_of_its_media_type():
    stored = store(PAGE)
    assert read(stored, "text/html") == Value("<b>hi</b>")
    assert read(stored, "application/json") == Value('{"a": [1]}')


def test_a_part_includes_its_range():
    stored = store({"text/html": "0123456789"})
    part = read(stored, "text/html", start=2, max_length=3, is_length_explicit=True)
    assert part == Value("234", cut="characters 2 to 5 of 10")
    assert read(stored, "text/html", max_value_bytes=4) == Value("0123", cut="characters 0 to 4 of 10")


def test_a_truncated_part_never_ends_within_a_character():
    assert read(store({"text/html": "ж😀"}), "text/html", max_value_bytes=4).text == "ж"


def test_the_last_stored_value_is_read_unless_a_number_is_given():
    stored = store({"text/html": "one"}, {"text/plain": "no page"}, {"text/html": "three"})
    assert read(stored, "text/html").text == "three"
    assert read(stored, "$1", "text/html").text == "one"
    assert "the evaluation has no text/html" in read(stored, "$2", "text/html")


def test_a_missing_type_is_reported_with_the_available_types():
    stored = store(PAGE)
    assert read(stored, "text/css") == (
        "the evaluation has no text/css, or it is no longer stored: the stored types are application/json, text/html"
    )
    assert "Pass a path with a MIME type" in read(stored)
    assert "Pass a path with a MIME type" in read(stored, 3)
    assert "text and images are in the evaluation's answer" in stored.read("e2", ValuePart(("text/html",)))


def test_images_and_plain_text_are_not_stored():
    stored = store({"text/plain": "<Figure>", "image/png": "AAAA"})
    assert "text and images are in the evaluation's answer" in read(stored, "image/png")


def test_the_oldest_stored_value_is_evicted_when_the_store_is_full():
    stored = StoredBundles(max_characters=10)
    for number in range(1, 4):
        stored.store(f"e{number}", {"text/html": f"{number}" * 5})
    stored.store("e4", {"text/html": "4" * 11})
    part = ValuePart(("text/html",))
    assert isinstance(stored.read("e1", part), str)
    assert [stored.read(f"e{number}", part) for number in (2, 3)] == [Value("22222"), Value("33333")]
    assert isinstance(stored.read("e4", part), str)
