"""The best media type of a value is displayed as text. For other types, the text names a way to read them."""

import pytest

from codriver.repls.contract.display_data import bundle_text

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
        ({"text/plain": "<__main__.A at 0x7fe589aa6b10>"}, "<__main__.A at 0x7fe589aa6b10>"),
        ({"text/plain": "<__main__.A at 0x7f>", "text/markdown": "**b**", "text/html": "<b>"}, "**b**"),
        ({"text/plain": "<IPython.core.display.Math object>", "text/latex": "$x^2$"}, "$x^2$"),
        ({"text/plain": "<a.f.<locals>.Chart object at 0x7F>", "text/html": "<p>3 <b>rows</b></p>"}, "<Chart: 3 rows>"),
        ({"text/plain": "<a.B at 0x7f>", "text/html": "<style>p {}</style><script>go()</script><p>x"}, "<B: x>"),
        ({"text/plain": "<a.B at 0x7f>", "text/html": "<svg></svg>"}, "<a.B at 0x7f>"),
        ({"text/plain": "<a.B at 0x7f>", "application/json": {"a": 1}}, '{"a": 1}'),
        ({"text/plain": "<a.B at 0x7f>", "application/json": [], "text/markdown": " "}, "[]"),
        ({"text/plain": "<A of 3>", "text/markdown": "**b**"}, "<A of 3>"),
    ],
)
def test_the_best_media_type_of_a_value_is_displayed(bundle, text):
    assert bundle_text(bundle) == text
