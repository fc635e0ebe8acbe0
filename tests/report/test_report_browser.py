"""The HTML reports in a browser: everything is shown, and nothing is asked of the network."""

import html
import json
import re
import shutil
import subprocess

import pytest

from experiment_cases import PAPER, write_records
from omcal.experiments.outputs import write_outputs
from omcal.experiments.plan import Plan
from report_cases import NASTY, SECTIONS, fit, make_data, report_with_nasty_names

pytestmark = pytest.mark.process

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the report with")

PROBE = """
<script>
addEventListener("load", function () {
  const found = { errors: [], violations: window.__violations || 0 };
  const box = document.getElementById("map").getBoundingClientRect();
  const map = JSON.parse(document.getElementById("payload").textContent).map;
  const raw = Uint8Array.from(atob(map.positions), c => c.charCodeAt(0));
  const xy = new Uint16Array(raw.buffer), canvas = document.getElementById("map");
  const tip = document.getElementById("tip");
  function at(i) {
    return { clientX: box.left + (.03 + .94 * xy[2 * i] / 65535) * box.width,
             clientY: box.top + (.97 - .94 * xy[2 * i + 1] / 65535) * box.height, bubbles: true };
  }
  found.hidden_before = tip.hidden;
  canvas.dispatchEvent(new PointerEvent("pointermove", at(5)));
  found.tip = tip.textContent; found.hidden_on_hover = tip.hidden;
  found.images = tip.querySelectorAll("img").length;
  canvas.dispatchEvent(new PointerEvent("pointerleave", {}));
  found.hidden_after = tip.hidden;
  canvas.focus();
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  const first = tip.textContent;
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  found.keys_move = tip.textContent !== first && !tip.hidden;
  found.said = document.getElementById("said").textContent;
  function ink(id) {
    const c = document.getElementById(id), copy = document.createElement("canvas");
    copy.width = c.width; copy.height = c.height;
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(c, 0, 0);
    const p = context.getImageData(0, 0, c.width, c.height).data;
    let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 30; return n / (p.length / 4);
  }
  const all = ink("map"), button = document.querySelector("#legend button");
  button.click();
  found.pressed = button.getAttribute("aria-pressed");
  found.fewer = ink("map") < all; found.ink = all;
  button.click();
  found.before = ink("before"); found.after = ink("after");
  const light = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  found.theme_changes = getComputedStyle(document.body).backgroundColor !== light;
  found.sections = Array.from(document.querySelectorAll("section")).map(s => s.id);
  found.heights = Array.from(document.querySelectorAll("section")).map(s => s.offsetHeight);
  found.requests = performance.getEntriesByType("resource").map(e => e.name);
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  found.cluster = map.clusters[5];
  const out = document.createElement("pre");
  out.id = "found"; out.textContent = JSON.stringify(found); document.body.appendChild(out);
});
</script>
"""
WATCH = (
    "<script>window.__violations = 0; document.addEventListener('securitypolicyviolation', "
    "function () { window.__violations += 1; });</script>"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    data = make_data()
    return report_with_nasty_names(fit(data), data, tmp_path_factory.mktemp("report"))


def open_in_chromium(page_path, folder, *options):
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={folder / 'network.json'}",
        *options,
        page_path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert hosts_asked(folder / "network.json") == set()
    return done.stdout, console


def hosts_asked(log):
    """Hosts that were asked for anything, but for those that the browser itself calls."""
    hosts = set(re.findall(r'"url":"https?://([^/"]+)', log.read_text(errors="replace")))
    return {host for host in hosts if not host.endswith((".google.com", ".googleapis.com"))}


def probe(report, folder, width, script=PROBE):
    text = report.read_text(encoding="utf-8")
    text = text.replace("<style>", WATCH + "<style>", 1).replace("</body>", script + "</body>")
    probed = folder / "probed.html"
    probed.write_text(text, encoding="utf-8")
    dom, console = open_in_chromium(
        probed, folder, "--dump-dom", f"--window-size={width},900", "--virtual-time-budget=4000"
    )
    match = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    assert match, console
    return json.loads(html.unescape(match[1])), console


@needs_chromium
@pytest.mark.parametrize("width", [1200, 500])
def test_a_browser_shows_everything(path, tmp_path, width):
    found, console = probe(path, tmp_path, width)
    assert console == []
    assert found["requests"] == [] and found["violations"] == 0
    assert found["sections"] == SECTIONS and min(found["heights"]) > 60
    assert found["hidden_before"] and not found["hidden_on_hover"] and found["hidden_after"]
    assert f"cluster {found['cluster']}" in found["tip"] and "class " in found["tip"]
    assert NASTY.split()[0] in found["tip"] and found["images"] == 0
    assert found["keys_move"] and "cluster" in found["said"]
    assert found["pressed"] == "true" and found["fewer"]
    assert found["ink"] > 0.005 and found["before"] > 0.01 and found["after"] > 0.01
    assert found["theme_changes"]
    assert found["overflow"] <= 0  # nothing makes the page wider than the screen


@needs_chromium
def test_the_watch_on_the_network_sees_a_request(tmp_path):
    asking = tmp_path / "asking.html"
    asking.write_text('<img src="http://127.0.0.1:9/x.png">')
    with pytest.raises(AssertionError, match="127"):
        open_in_chromium(asking, tmp_path, "--dump-dom")


@needs_chromium
def test_a_browser_draws_the_page_at_phone_width(path, tmp_path):
    picture = tmp_path / "phone.png"
    _, console = open_in_chromium(
        path, tmp_path, f"--screenshot={picture}", "--window-size=390,2400", "--hide-scrollbars"
    )
    assert console == []
    assert picture.stat().st_size > 20_000


PAGE_PROBE = """
<script>
addEventListener("load", function () {
  const found = {};
  found.sections = Array.from(document.querySelectorAll("section")).map(s => s.id);
  const figures = Array.from(document.querySelectorAll("figure svg"));
  found.figures = figures.map(figure => figure.getBoundingClientRect().height);
  found.tables = document.querySelectorAll("table").length;
  found.requests = performance.getEntriesByType("resource").map(e => e.name);
  found.violations = window.__violations;
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  const out = document.createElement("pre");
  out.id = "found"; out.textContent = JSON.stringify(found); document.body.appendChild(out);
});
</script>
"""


@needs_chromium
@pytest.mark.parametrize("width", [1200, 500])
def test_a_browser_shows_the_reproduction(tmp_path, width):
    write_records(tmp_path / "records.jsonl")
    plan = Plan(PAPER, 1, quick=True)
    page_path = write_outputs(plan, tmp_path / "records.jsonl", tmp_path, None)[0]
    found, console = probe(page_path, tmp_path, width, PAGE_PROBE)
    assert console == [] and found["requests"] == []
    assert {"data", "beside", "results", "single", "figures", "reasons"} <= set(found["sections"])
    assert len(found["figures"]) == 5 and min(found["figures"]) > 100
    assert found["tables"] > 15 and found["overflow"] <= 0
    assert found["violations"] == 0
