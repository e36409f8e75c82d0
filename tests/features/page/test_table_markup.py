"""The markup of tables: what displays a table is kept, and nothing that could run or connect anywhere."""

import random
import re
from html.parser import HTMLParser

import pytest

from codriver.features.page.table_markup import remove_external_references

PANDAS = """<style type="text/css">
#T_1 td { color: red; }
</style>
<table border="1" class="dataframe" id="T_1">
  <thead><tr style="text-align: right;"><th></th><th colspan="2">a &amp; b</th></tr></thead>
  <tbody><tr><th>0</th><td class="x">1 &lt; 2</td><td style="background-color: #eee">é</td></tr></tbody>
</table>"""


def test_a_pandas_table_is_unchanged():
    plain = PANDAS.replace(' type="text/css"', "")
    assert remove_external_references(PANDAS) == plain


@pytest.mark.parametrize(
    "markup",
    [
        '<svg viewbox="0 0 9 9"><defs><path id="a" d="M0 0"></path></defs><use href="#a"></use></svg>',
        '<input type="checkbox" id="s" checked=""><label for="s">fold</label>',
        '<details open=""><summary>more</summary>text</details>',
        '<img src="data:image/png;base64,iVBO=" alt="plot" width="10">',
        "<p>text <b>bold</b> <code>x &lt; y</code><br></p>",
    ],
)  # fmt: skip
def test_elements_of_tables_are_kept(markup):
    assert remove_external_references(markup) == markup


GONE = [
    "<link rel=preconnect href={0}>", "<link rel='dns-prefetch' href={0}>", "<LINK REL=preload AS=image HREF={0}>",
    "<link rel=prefetch href={0}>", "<link rel=modulepreload href={0}>", "<link rel=prerender href={0}>",
    "<iframe src={0}></iframe>", "<iframe srcdoc='<link rel=preconnect href={0}>'></iframe>", "<frame src={0}>",
    "<object data={0}></object>", "<embed src={0}>", "<portal src={0}></portal>", "<fencedframe src={0}></fencedframe>",
    "<meta http-equiv=refresh content='0;url={0}'>", "<base href={0}>", "<script src={0}></script>",
    '<script type=speculationrules>{{"prerender": [{{"urls": ["{0}"]}}]}}</script>',
    "<img src={0}>", "<img srcset='{0} 1x'>", "<picture><source srcset={0}><img src={0}></picture>",
    "<video src={0} poster={0}></video>", "<audio src={0}></audio>", "<track src={0}>", "<input type=image src={0}>",
    "<a href={0} ping={0}>go</a>", "<area href={0}>", "<form action={0}><button formaction={0}>x</button></form>",
    "<table background={0}><tr><td>x</table>", "<body background={0}>", "<html manifest={0}>",
    "<svg><image href={0} /><use xlink:href='{0}#a' /><a href={0}>x</a></svg>",
    "<svg><foreignObject><iframe src={0}></iframe></foreignObject></svg>",
    "<svg><animate attributeName=href values={0} /><set attributeName=href to={0} /></svg>",
    "<p style='background: url({0})'>x</p>", "<style>@import '{0}'; p {{ background: url( {0} ) }}</style>",
    "<style>p {{ background: image-set('{0}' 1x) }}</style>", "<p style='background: u\\72l({0})'>x</p>",
    "<math><maction xlink:href={0}>x</maction></math>", "<template><link rel=preconnect href={0}></template>",
    "<noscript><link rel=preconnect href={0}></noscript>", "<textarea><link rel=preconnect href={0}></textarea>",
    "<!--><link rel=preconnect href={0}>-->", "<style><!--</style><link rel=preconnect href={0}>-->",
    "<title><link rel=preconnect href={0}></title>", "<xmp><link rel=preconnect href={0}></xmp>",
    "<table><tr><td title='><link rel=preconnect href={0}>'>x</table>", "<p x='\"><link rel=preconnect href={0}>",
    "<svg><style><a title='</style><link rel=preconnect href={0}>'>x</a></style></svg>",
    "<link/rel=preconnect/href={0}>",
]  # fmt: skip
"""Markup that leads to the address in its place, or may in some browser."""


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.values = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.values += attrs


@pytest.mark.parametrize("markup", GONE)
def test_links_and_resources_are_removed(markup):
    _assert_harmless(remove_external_references(markup.format("http://evil.example/x")))


def test_no_combination_of_markup_fragments_refers_to_another_site():
    drawn, pieces = random.Random(3), [*GONE, *"<>\"'/!-= \x00&", "</style>", "-->", "<![CDATA[", "]]>", "<?", PANDAS]
    for _ in range(3000):
        markup = "".join(drawn.choice(pieces) for _ in range(drawn.randint(1, 6))).replace("{0}", "//evil.example")
        _assert_harmless(remove_external_references(markup))


def test_markup_truncated_anywhere_is_harmless():
    markup = PANDAS + "".join(GONE).replace("{0}", "//evil.example")
    for end in range(0, len(markup), 7):
        _assert_harmless(remove_external_references(markup[:end]))


def _assert_harmless(written):
    reader = Reader()
    reader.feed(written)
    reader.close()
    forbidden = {"link", "iframe", "frame", "object", "embed", "meta", "base", "script", "form", "image", "template"}
    assert forbidden.isdisjoint(reader.tags), written
    for name, value in reader.values:
        assert not name.startswith("on"), written
        leads = name in ("src", "href", "srcset", "background", "action", "data", "poster", "ping", "xlink:href")
        assert not leads or value.startswith(("#", "data:image/")), written
        assert "url(" not in re.sub(r"\s", "", value) if name == "style" else True, written
    styles = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    assert not any("evil" in style for style in styles), written
    assert written.count("<style>") == written.count("</style>"), written
