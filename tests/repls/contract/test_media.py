"""Of a thing in several media types the best is shown; what no text can show is named with the way to read it."""

import pytest

from codriver.repls.contract.adapter_values import text_of

FIGURE = {"text/plain": "<Figure>", "image/png": "AA\nAA\n"}


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        ({"text/plain": "3"}, "3"),
        (FIGURE, "data:image/png;base64,AAAA"),
        ({"text/html": "<b>", "text/markdown": "**b**"}, "**b**"),
        ({"text/plain": "", "text/html": "<b>"}, '<text/html, 3 characters: get_evaluation with path ["text/html"]>'),
        (
            {"application/vnd.vega+json": {"a": "x" * 4096}},
            '<application/vnd.vega+json, 4 KB: get_evaluation with path ["application/vnd.vega+json"]>',
        ),
        ({}, ""),
    ],
)
def test_the_best_type_is_shown(bundle, text):
    assert text_of(bundle) == text
