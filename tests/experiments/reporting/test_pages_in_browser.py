"""Reports as they are seen, on a desk and on a phone: nothing is cut without a cue."""

import matplotlib
import pytest

from experiments.parity.report_files import write_report
from experiments.reporting.document import Badge, Bullets, Cited, Code, Document, Section, Table
from experiments.reporting.html_page import MOST_CARDS, render_html
from experiments.reporting.number_text import NONE
from experiments.reporting.picture import take_picture
from experiments.reporting.plot_style import BLUE, STYLE, add_legend, draw_panels, is_leftmost
from tests.experiments.browser import ask, needs_chromium
from tests.experiments.parity.parity_records import BEST, make_records

pytestmark = needs_chromium

DESK, PHONE = 1400, 420
LONG = "A_file_of_measurements_whose_name_has_no_space_and_does_not_end_before_the_margin.csv"
COLUMNS = tuple(f"Quantity {k}\n(unit)" for k in range(16))

MEASURE = """
const width = shown.innerWidth;
const scroller = (element) => element.closest(".scroll");
const cued = (box) => {
  const hint = shown.getComputedStyle(box, "::before");
  const layers = shown.getComputedStyle(box).backgroundAttachment;
  return hint.opacity === "1" && parseFloat(hint.height) > 10 && layers === "local, scroll";
};
const all = [...page.body.querySelectorAll("*")];
const cut = (e) => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1;
const wide = all.filter((e) => {
  return !scroller(e) && (cut(e) || e.getBoundingClientRect().right > width + 1);
});
const boxes = [...page.querySelectorAll(".scroll")];
const moving = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1);
const drawn = async (done) => {  // until a picture has been drawn, but not for ever
  for (let k = 0; k < 40 && !done(); k++) await new Promise((soon) => setTimeout(soon, 250));
};
const wrong = () => boxes.filter((box) => cued(box) !== moving.includes(box));
await drawn(() => !wrong().length);
const silent = wrong();
const kept = [];
for (const box of moving) {
  box.scrollLeft = box.scrollWidth;
  await drawn(() => !cued(box));
  const first = box.querySelector("tbody th");
  const edge = box.getBoundingClientRect();
  const last = box.querySelector("tbody td:last-child").getBoundingClientRect();
  kept.push({
    first: first.getBoundingClientRect().left - edge.left,
    last: edge.right - last.right,
    cue: cued(box), says: first.innerText.split("\\n").slice(1),
  });
}
const label = (cell) => shown.getComputedStyle(cell, "::before").content;
const cells = [...page.querySelectorAll(".cards td:not(.none)")].map((cell) => ({
  said: label(cell).replaceAll('"', ""), label: cell.dataset.label,
  left: cell.getBoundingClientRect().left, right: cell.getBoundingClientRect().right,
}));
const headed = [...page.querySelectorAll(".cards th[data-label]")].map(label);
const dashes = [...page.querySelectorAll(".cards td.none")].map((cell) => cell.clientWidth);
const plots = [...page.querySelectorAll("img")].map((image) => ({
  scale: image.clientWidth / image.naturalWidth, tall: image.naturalHeight / image.naturalWidth,
}));
return {
  width, whole: page.documentElement.scrollWidth,
  wide: wide.map((e) => e.outerHTML.slice(0, 80)), silent: silent.length,
  moving: moving.length, kept, cells, headed, dashes, plots,
};
"""


def made_up_page() -> str:
    """All that a report can hold, with too much of everything."""
    row = (LONG, "a kind, or one that has more to say", "a method", *["10.00 ± 0.00"] * 16)
    header = ("Name", "Kind", "Method", *COLUMNS)
    wide = Table("Wide", header, (row,) * (MOST_CARDS + 1), text_columns=3)
    few = Table(
        "Few",
        ("Name", "Words", "Value", "Judged"),
        ((LONG, f"{LONG} and {LONG}", "1.00\n(0 to 2)", Badge("undecided", "open")),) * 2,
        caption=LONG,
        text_columns=2,
    )
    bare = Table("Bare", ("Width", "B", "C", "D"), (("64", "1", "2", NONE),))
    slim = Table(
        "Slim", ("Name", "Value"), (("What was looked at", "12 of some, 24 of others " * 3),)
    )
    cited = Table("Cited", ("Name", Cited("Published", "https://a.org/")), (("a", "1"),))
    with matplotlib.rc_context(STYLE):
        drawing, panels = draw_panels([f"{LONG} {k}" for k in range(5)])
        for axes in panels:
            axes.plot([0, 1], [0, 1], color=BLUE)
            axes.tick_params(labelleft=is_leftmost(axes))
        add_legend(drawing, [(f"a long entry, number {k}", BLUE, "-") for k in range(6)])
    figure = take_picture("plot", LONG, LONG, drawing).figure
    blocks = (
        LONG,
        Bullets((LONG,)),
        Code(f"python -m {LONG} {LONG}"),
        wide,
        few,
        bare,
        slim,
        cited,
        figure,
    )
    return render_html(Document(LONG, (LONG,), (Section(LONG, blocks),)))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What was measured in each page at both widths."""
    folder = tmp_path_factory.mktemp("pages")
    records = make_records(["digits"])
    write_report(records, folder, best_baseline=BEST, command="python", machine={"cpu": "any"})
    texts = {"made_up": made_up_page(), "parity": (folder / "report.html").read_text("utf-8")}
    pages = {f"{n}_{w}": (text, w) for n, text in texts.items() for w in (DESK, PHONE)}
    return ask(pages, MEASURE, folder)


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", ["made_up", "parity"])
def test_nothing_is_wider_than_the_page_without_a_cue(name, width, found):
    page = found[f"{name}_{width}"]
    assert page["width"] == width
    assert page["whole"] <= width
    assert page["wide"] == []
    assert page["silent"] == 0


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_table_that_scrolls_keeps_its_first_column_and_shows_its_last(width, found):
    page = found[f"made_up_{width}"]
    assert page["moving"] == 1
    (kept,) = page["kept"]
    assert kept["first"] == pytest.approx(0.0, abs=1.0)
    assert kept["last"] == pytest.approx(0.0, abs=1.0)
    assert not kept["cue"]


def test_on_a_phone_the_first_column_says_whose_the_numbers_are(found):
    """Other columns of text would have gone when the numbers are seen."""
    (desk,), (phone,) = (found[f"made_up_{width}"]["kept"] for width in (DESK, PHONE))
    assert desk["says"] == []
    assert phone["says"] == ["a kind, or one that has more to say", "a method"]


def test_small_tables_are_cards_on_a_phone_that_name_every_number(found):
    for name in ("made_up", "parity"):
        cells = found[f"{name}_{PHONE}"]["cells"]
        assert len(cells) >= 6
        assert all(cell["said"] == cell["label"] != "" for cell in cells)
        assert all(0 <= cell["left"] < cell["right"] <= PHONE for cell in cells)
        assert all(cell["said"] == "none" for cell in found[f"{name}_{DESK}"]["cells"])


def test_a_card_has_a_name_at_its_head_and_no_line_without_a_number(found):
    phone, desk = (found[f"made_up_{width}"] for width in (PHONE, DESK))
    assert len(phone["headed"]) == 1
    assert phone["headed"][0].startswith('"Width')
    assert desk["headed"] == ["none"]
    assert phone["dashes"] == [0]
    assert desk["dashes"][0] > 0


def test_plots_are_drawn_for_the_width_of_the_page(found):
    """Letters are of 9 points, which are 12 pixels where a drawing is shown in its size."""
    for name in ("made_up", "parity"):
        wide, narrow = found[f"{name}_{DESK}"]["plots"], found[f"{name}_{PHONE}"]["plots"]
        assert len(wide) == len(narrow) >= 1
        assert all(plot["scale"] > 0.85 for plot in wide + narrow)
    assert found[f"made_up_{PHONE}"]["plots"][0]["tall"] > 2.0
    assert found[f"made_up_{DESK}"]["plots"][0]["tall"] < 1.0
