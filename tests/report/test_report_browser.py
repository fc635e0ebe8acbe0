"""The HTML reports in a browser: used as a reader uses them; nothing is asked of the network."""

import csv
import json
import re

import pytest

from browser import CHROMIUM, Browser
from experiment_cases import PAPER, write_records
from omcal.experiments.outputs import write_outputs
from omcal.experiments.plan import Plan
from report_cases import NASTY, SECTIONS, large_report, make_data, payload_of
from report_cases import report_with_nasty_names as nasty_report

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the report with"),
    # One of the views is noise, and the fit says so.
    pytest.mark.filterwarnings("ignore:.*shows other groups"),
]
SHIFT, CTRL = 8, 2
# The pixels p of a copy of the map.
COPY = """const map = document.getElementById("map"), copy = document.createElement("canvas");
  copy.width = map.width; copy.height = map.height;
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(map, 0, 0);
  const p = context.getImageData(0, 0, map.width, map.height).data;"""
# Share of them that are not paper: at all, or clearly.
INK = f"""(() => {{ {COPY} let n = 0;
  for (let i = 0; i < p.length; i += 4) n += p[i] !== p[0] || p[i + 2] !== p[2];
  return n / (p.length / 4); }})()"""
CLEAR_INK = INK.replace(
    "p[i] !== p[0] || p[i + 2] !== p[2]", "p[i] < p[0] - 80 || p[i + 2] < p[2] - 80"
)
PIXELS = f"""(() => {{ {COPY} let h = 0;
  for (let i = 0; i < p.length; i++) h = (31 * h + p[i]) | 0;
  return h; }})()"""
# The largest difference between the length of a bar and its share.
BARS_IN_PROPORTION = """(() => { let most = 0;
  for (const one of document.querySelectorAll("td.bar span")) {
    const cell = one.parentElement, style = getComputedStyle(cell);
    const share = Number(style.getPropertyValue("--v"));
    const room = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    most = Math.max(most, Math.abs(one.getBoundingClientRect().width / room - share));
  } return most; })()"""
# Text of charts: the least size in pixels, and the number of texts that are cut.
SMALLEST_CHART_TEXT = """Math.min(...Array.from(document.querySelectorAll("svg.chart text"), t =>
  parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a))"""
CUT_CHART_TEXT = """Array.from(document.querySelectorAll("svg.chart text")).filter(t => {
  const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
  const right = Math.min(b.right + 1, innerWidth);
  return a.left < b.left - 1 || a.right > right || a.bottom > b.bottom + 1; }).length"""
CUT_CARDS = """Array.from(document.querySelectorAll(".cards .scroll")).filter(
  s => s.scrollWidth > s.clientWidth + 1).length"""
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# A page scrolls in many small steps, however long a busy machine takes for them.
STILL = """new Promise(done => { let last = -1, same = 0;
  (function look() { same = scrollY === last ? same + 1 : 0; last = scrollY;
    if (same < 20) requestAnimationFrame(look); else done(); })(); })"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()
    assert browser.hosts_asked() == set()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return nasty_report(make_data(), tmp_path_factory.mktemp("report"))


@pytest.fixture
def page(browser, made):
    page = browser.open(made[0])
    yield page
    assert page.complaints() == []
    page.close()


def place_of(page, made, sample):
    """Where a sample is on the screen, with the whole map in view."""
    xy = payload_of(made[0].read_text(encoding="utf-8"))["arrays"]["xy"].reshape(-1, 2) / 65535
    x, y, size, _ = page.place("#map")
    at = (0.03 + 0.94 * xy[sample, 0], 0.97 - 0.94 * xy[sample, 1])
    return x + at[0] * size, y + at[1] * size


def alone_on_the_map(made):
    """The sample that is farthest from its neighbour, so that a click can mean no other."""
    xy = (
        payload_of(made[0].read_text(encoding="utf-8"))["arrays"]["xy"].reshape(-1, 2).astype(float)
    )
    distances = ((xy[:, None] - xy) ** 2).sum(axis=2)
    distances[range(len(xy)), range(len(xy))] = float("inf")
    return int(distances.min(axis=1).argmax())


@pytest.mark.parametrize(
    ("width", "dark"), [(1400, False), (1400, True), (400, False), (400, True)]
)
def test_everything_is_shown_on_any_screen(browser, made, width, dark):
    page = browser.open(made[0], width=width, dark=dark)
    assert page.run("Array.from(document.querySelectorAll('section'), s => s.id)") == SECTIONS
    heights = page.run("Array.from(document.querySelectorAll('section'), s => s.offsetHeight)")
    assert min(heights) > 60
    assert page.run("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.run(INK) > 0.005
    assert page.run(BARS_IN_PROPORTION) < 0.02
    assert page.run(CUT_CARDS) == 0
    assert page.run(SMALLEST_CHART_TEXT) > 9 and page.run(CUT_CHART_TEXT) == 0
    colour = "getComputedStyle(document.body).backgroundColor"
    assert (sum(map(int, re.findall(r"\d+", page.run(colour)))) < 200) == dark
    page.click("#theme")
    assert (sum(map(int, re.findall(r"\d+", page.run(colour)))) < 200) != dark
    assert page.run("performance.getEntriesByType('resource').length") == 0
    assert page.complaints() == []
    page.close()


def test_hostile_names_are_text(page, made):
    assert page.text("h1") == f"Title {NASTY}"
    assert page.run("document.querySelectorAll('img').length") == 0
    sample = alone_on_the_map(made)
    x, y = place_of(page, made, sample)
    page.mouse("mouseMoved", x, y)
    page.wait("!document.getElementById('tip').hidden")
    assert page.text("#tip strong") == f"{NASTY} {sample}"
    page.click("#colour")
    titles = page.run("Array.from(document.querySelectorAll('#colour option'), o => o.text)")
    # The text of an option comes with its white space made plain.
    plain = " ".join(f"age {NASTY}".split())
    assert [" ".join(title.split()) for title in titles].count(plain) == 1
    assert page.run("document.querySelectorAll('img, script').length") == 2


def test_a_click_opens_the_card_of_a_sample(page, made):
    path, model = made
    sample = alone_on_the_map(made)
    arrays = payload_of(path.read_text(encoding="utf-8"))["arrays"]
    x, y = place_of(page, made, sample)
    page.mouse("mousePressed", x, y)
    page.mouse("mouseReleased", x, y)
    page.wait("!document.getElementById('card').hidden")
    text = page.text("#card")
    assert f"{NASTY} {sample}" in text and f"cluster {model.labels_[sample]}" in text
    assert f"next bestcluster {arrays['second'][sample]}" in text
    assert f"certainty{arrays['certainty'][sample] / 254:.1%}" in text
    assert page.run("document.querySelectorAll('#card .view').length") == 3
    shares = page.run(
        "Array.from(document.querySelectorAll('#card .view strong'), s => s.innerText)"
    )
    values = [abs(float(share.strip("%").replace("−", "-"))) for share in shares]
    assert sum(values) == pytest.approx(100, abs=3)
    # A neighbour leads to its own card.
    name = page.text("#card button.link")
    page.click("#card button.link")
    assert page.text("#card strong") == name
    page.key("Escape")
    page.click("#card .head button")
    assert page.run("document.getElementById('card').hidden")


def test_search_finds_a_sample_by_its_id(page):
    page.click("#find")
    page.write("&AMP;\u2028 123")
    page.wait("document.querySelectorAll('#hits button').length === 1")
    before = page.run(PIXELS)
    page.key("Enter")
    page.wait("!document.getElementById('card').hidden")
    assert page.text("#card strong") == f"{NASTY} 123"
    page.run(DRAWN)
    assert page.run(PIXELS) != before  # the map has gone there
    page.run("document.getElementById('find').value = ''")
    page.click("#find")
    page.write("no such id")
    page.wait("document.getElementById('hits').textContent === 'There is none.'")


def test_zoom_and_pan_by_wheel_buttons_and_keys(page, made):
    start = page.run(PIXELS)
    page.wheel(*place_of(page, made, 0), -300)
    page.run(STILL)
    assert page.run(PIXELS) == start  # without Ctrl the page scrolls, not the map
    x, y = place_of(page, made, 0)  # elsewhere there may be nothing to be seen
    page.wheel(x, y, -100, CTRL)
    page.run(DRAWN)
    zoomed = page.run(PIXELS)
    assert zoomed != start
    left, _, size, _ = page.place("#map")
    there = x + 30 if x > left + size / 2 else x - 30  # away from the edge that is farther off
    page.drag((x, y), (there, y))
    page.run(DRAWN)
    assert page.run(PIXELS) not in (start, zoomed)
    page.click("#all")
    page.run(f"document.activeElement.blur(); {DRAWN}")
    page.mouse("mouseMoved", 1, 1)
    page.run(DRAWN)
    assert page.run(PIXELS) == start
    page.run("document.getElementById('map').focus()")
    page.key("+", "+")
    page.run(DRAWN)
    assert page.run(PIXELS) != start
    page.key("0", "0")
    page.run(DRAWN)
    assert page.run(PIXELS) == start


def test_the_keyboard_goes_from_sample_to_sample(page):
    page.run("document.getElementById('map').focus()")
    page.key("ArrowRight")
    page.wait("!document.getElementById('tip').hidden")
    first = page.text("#tip")
    page.key("ArrowLeft")
    assert page.text("#tip") != first
    assert "cluster" in page.text("#said")
    name = page.text("#tip strong")
    page.key("Enter")
    page.wait("!document.getElementById('card').hidden")
    assert page.text("#card strong") == name
    page.key("Escape")
    assert page.run("document.getElementById('card').hidden")


@pytest.mark.parametrize("how", ["shift", "button"])
def test_a_box_marks_samples(page, made, how):
    x, y, size, _ = page.place("#map")
    if how == "button":
        page.click("#select")
        x, y, size, _ = page.place("#map")
    page.drag((x + 2, y + 2), (x + size / 2, y + size - 2), SHIFT if how == "shift" else 0)
    page.wait("!document.getElementById('marked').hidden")
    xy = payload_of(made[0].read_text(encoding="utf-8"))["arrays"]["xy"].reshape(-1, 2)
    inside = int((0.03 + 0.94 * xy[:, 0] / 65535 <= 0.5).sum())
    count = int(re.match(r"(\d+) samples are marked", page.text("#marked strong"))[1])
    assert abs(count - inside) <= 2 and 0 < inside < 240
    page.click("#marked .take button")
    rows = page.downloaded("marked.csv").read_text(encoding="utf-8").count("\n")
    assert rows == count + 1


def choose_colour(page, title):
    page.run(
        f"(() => {{ const c = document.getElementById('colour'); c.value = Array.from(c.options)"
        f".findIndex(o => o.textContent.startsWith({json.dumps(title)}));"
        f" c.dispatchEvent(new Event('change')); }})()"
    )
    page.run(DRAWN)


def test_colours_by_class_certainty_agreement_and_columns(page):
    seen = {page.run(PIXELS)}
    for title, names in (
        ("known class", 4),
        ("certainty", 0),
        ("agreement of view1", 0),
        ("age", 0),
        ('"', 2),
    ):
        choose_colour(page, title)
        seen.add(page.run(PIXELS))
        listed = page.run("document.querySelectorAll('#legend button').length")
        assert listed == names if names else page.visible("#scale"), title
    assert len(seen) == 6
    choose_colour(page, "known class")
    assert NASTY in page.text("#legend")
    choose_colour(page, "age")
    assert page.text("#scale") == "0239"


def test_the_legend_shows_clusters_alone(page):
    everything, clear = page.run(INK), page.run(CLEAR_INK)
    page.click("#legend button")
    page.run(DRAWN)
    assert (
        page.run("document.querySelector('#legend button').getAttribute('aria-pressed')") == "true"
    )
    # The others are still there, but faint.
    assert page.run(CLEAR_INK) < 0.5 * clear and page.run(INK) > 0.9 * everything
    page.click("#legend button")
    page.run(DRAWN)
    assert page.run(INK) == everything


def test_labels_and_figures_can_be_taken_home(page, made):
    _, model = made
    page.click("#labels")
    with page.downloaded("labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["cluster"]) for row in rows] == model.labels_.tolist()
    assert rows[17]["id"] == f"{NASTY} 17" and rows[17]["class"].startswith(NASTY)
    assert 0 <= float(rows[0]["certainty"]) <= 1
    page.click("#map-png")
    assert page.downloaded("map.png").read_bytes().startswith(b"\x89PNG")
    page.click("#map-svg")
    assert page.downloaded("map.svg").read_text().count("<use") == 240
    page.click('[data-file="convergence"][data-save="svg"]')
    drawn = page.downloaded("convergence.svg").read_text(encoding="utf-8")
    assert "xmlns" in drawn and "href" not in drawn and "rgb" in drawn
    page.click('[data-file="convergence"][data-save="png"]')
    assert page.downloaded("convergence.png").stat().st_size > 2000
    page.click('[data-file="cluster-sizes"]')
    assert page.downloaded("cluster-sizes.csv").read_text().count("\n") == 5
    page.click('[data-file="clusters-and-classes"]')
    assert page.downloaded("clusters-and-classes.csv").read_text().count("\n") == 5
    page.click("#take-features")
    with page.downloaded("features.csv").open(encoding="utf-8", newline="") as file:
        features = list(csv.DictReader(file))
    assert {row["cluster"] for row in features} == set("0123")
    assert all(row["view"] for row in features)


def test_a_sample_in_a_table_opens_on_the_map(page):
    name = page.text("#samples button.link")
    page.click("#samples button.link")
    page.wait("!document.getElementById('card').hidden")
    assert page.text("#card strong") == name


def test_fingers_zoom_the_map(browser, made):
    page = browser.open(made[0], width=400, touch=True)
    x, y, size, _ = page.place("#map")
    start = page.run(PIXELS)
    middle = (x + size / 2, y + size / 2)
    for kind, apart in (("touchStart", 30), ("touchMove", 60), ("touchMove", 90)):
        points = [
            {"x": middle[0] - apart, "y": middle[1]},
            {"x": middle[0] + apart, "y": middle[1]},
        ]
        page.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    page.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.run(DRAWN)
    assert page.run(PIXELS) != start
    page.close()


@pytest.mark.long
def test_a_hundred_thousand_samples(browser):
    page = browser.open(large_report(100_000))
    assert "All 100,000 samples are drawn." in page.text("#clusters")
    assert page.run(INK) > 0.05
    page.click("#find")
    page.write("099999-")
    page.key("Enter")
    page.wait("!document.getElementById('card').hidden")
    assert page.text("#card strong").startswith("099999-")
    page.run(DRAWN)
    zoomed = page.run(PIXELS)
    page.click("#all")
    page.run(DRAWN)
    assert page.run(PIXELS) != zoomed
    assert page.complaints() == []
    page.close()


def test_the_watch_on_the_network_sees_a_request(tmp_path):
    asking = tmp_path / "asking.html"
    asking.write_text('<img src="http://127.0.0.1:9/x.png">')
    browser = Browser(tmp_path)
    browser.open(asking)
    browser.close()
    assert browser.hosts_asked() == {"127.0.0.1:9"}


def test_the_watch_on_the_policy_sees_a_refusal(browser, made, tmp_path):
    text = made[0].read_text(encoding="utf-8")
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace("</body>", "<script>window.ran = 1</script></body>"))
    page = browser.open(changed)
    assert page.run("window.ran") is None
    assert any("Content Security Policy" in complaint for complaint in page.complaints())
    page.close()


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    write_records(folder / "records.jsonl")
    return write_outputs(Plan(PAPER, 1, quick=True), folder / "records.jsonl", folder, None)[0]


@pytest.mark.long
@pytest.mark.parametrize("width", [1400, 400])
def test_the_reproduction_is_shown(browser, reproduction, width):
    page = browser.open(reproduction, width=width)
    titles = page.run("Array.from(document.querySelectorAll('section h2'), h => h.textContent)")
    assert {"Data", "Reasons for differences", "Clustering results", "Figures"} <= set(titles)
    assert len(page.run("Array.from(document.querySelectorAll('section[id]'), s => s.id)")) >= 8
    figures = page.run(
        "Array.from(document.querySelectorAll('figure img'), i => [i.naturalWidth, i.offsetHeight])"
    )
    assert len(figures) == 5 and min(min(size) for size in figures) > 100
    assert page.run("document.querySelectorAll('table').length") > 15
    assert page.run("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.complaints() == []
    page.close()
