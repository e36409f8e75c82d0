"""Bundles are retained for a while, and read in parts by media type."""

from codriver.core.values import PrintLimits, ValuePart
from codriver.features.jupyter.kernels.stored_bundles import StoredBundles
from codriver.repls.contract.adapter_values import Value

PAGE = {"text/plain": "<Page>", "text/html": "<b>hi</b>", "application/json": {"a": [1]}}


def read(kept, *path, start=0, **limits):
    return kept.read("e1", ValuePart(path, start, PrintLimits(**limits)))


def kept_of(*bundles, **options):
    kept = StoredBundles(**options)
    for bundle in bundles:
        kept.store("e1", bundle)
    return kept


def test_a_media_type_is_read_by_its_name():
    kept = kept_of(PAGE)
    assert read(kept, "text/html") == Value("<b>hi</b>")
    assert read(kept, "application/json") == Value('{"a": [1]}')


def test_a_part_includes_its_range():
    kept = kept_of({"text/html": "0123456789"})
    asked = read(kept, "text/html", start=2, max_length=3, is_length_explicit=True)
    assert asked == Value("234", cut="characters 2 to 5 of 10")
    assert read(kept, "text/html", max_value_bytes=4) == Value("0123", cut="characters 0 to 4 of 10")


def test_a_cut_never_splits_a_character():
    assert read(kept_of({"text/html": "ж😀"}), "text/html", max_value_bytes=4).text == "ж"


def test_the_last_bundle_is_read_unless_a_number_is_given():
    kept = kept_of({"text/html": "one"}, {"text/plain": "no page"}, {"text/html": "three"})
    assert read(kept, "text/html").text == "three"
    assert read(kept, "$1", "text/html").text == "one"
    assert "it has no text/html" in read(kept, "$2", "text/html")


def test_a_missing_type_is_reported_with_those_available():
    kept = kept_of(PAGE)
    assert read(kept, "text/css") == "it has no text/css, or it is no longer stored: it has application/json, text/html"
    assert "use a path with a MIME type" in read(kept)
    assert "use a path with a MIME type" in read(kept, 3)
    assert "text and images are in the answer" in kept.read("e2", ValuePart(("text/html",)))


def test_images_and_plain_text_are_not_stored():
    kept = kept_of({"text/plain": "<Figure>", "image/png": "AAAA"})
    assert "text and images are in the answer" in read(kept, "image/png")


def test_the_oldest_bundle_is_evicted_when_full():
    kept = StoredBundles(max_characters=10)
    for number in range(1, 4):
        kept.store(f"e{number}", {"text/html": f"{number}" * 5})
    kept.store("e4", {"text/html": "4" * 11})
    part = ValuePart(("text/html",))
    assert isinstance(kept.read("e1", part), str)
    assert [kept.read(f"e{number}", part) for number in (2, 3)] == [Value("22222"), Value("33333")]
    assert isinstance(kept.read("e4", part), str)
