"""The report in a browser: size, time to make it, to its first picture, and of a frame; Markdown.

    python benchmarks/report_page.py [--samples 1000 10000 100000] [--out FILE]

It needs Chromium, which runs without a window and without a GPU. The first picture is there when
the page has been read, its data unpacked and the map drawn. A frame is a drawing of the map while
it is zoomed in and out; of many samples a part is drawn until the map rests, and then all.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from omcal import OMCAL
from omcal.datasets import make_multiview

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser import Browser

# Milliseconds of drawings of all samples, and of the frames of a moving map.
FRAMES = """(async () => {
  const map = document.getElementById("map"), colour = document.getElementById("colour");
  const context = CanvasRenderingContext2D.prototype, put = context.putImageData;
  const ask = window.requestAnimationFrame, all = [], moving = [];
  let begun = 0, found = all;
  window.requestAnimationFrame = f => ask(t => { begun = performance.now(); f(t); });
  context.putImageData = function (...rest) {
    put.apply(this, rest);
    found.push(performance.now() - begun);
  };
  const rest = () => new Promise(done => ask(() => ask(done)));
  for (let k = 0; k < 6; k++) {
    colour.value = (k + 1) % 2;
    colour.dispatchEvent(new Event("change"));
    await rest();
  }
  map.focus();
  found = moving;
  for (let k = 0; k < 30; k++) {
    map.dispatchEvent(new KeyboardEvent("keydown", { key: k % 2 ? "-" : "+", bubbles: true }));
    await rest();
  }
  return [all, moving];
})()"""


def measured(n: int, folder: Path) -> list[str]:
    """The cells of a row."""
    data = make_multiview(n, n_clusters=10, n_views=3, n_features=20, random_state=0)
    model = OMCAL(10, random_state=0).fit(data.views)
    names = [f"sample-{i:06d}" for i in range(n)]
    start = perf_counter()
    path = model.report(folder / f"{n}.html", data.views, data.labels, names=names)
    making = perf_counter() - start
    browser = Browser(folder)
    try:
        opened, whole, moving = [], [], []
        for _ in range(3):
            page = browser.open(path, width=1400)
            opened.append(page.seconds_to_open)
            found = page.run(FRAMES)
            whole += found[0]
            moving += found[1]
            page.close()
    finally:
        browser.close()
    size = path.stat().st_size / 1e6
    return [
        f"{n:,}",
        f"{size:.2f} MB",
        f"{making:.1f} s",
        f"{np.median(opened):.2f} s",
        f"{np.median(whole):.0f} ms",
        f"{np.median(moving):.0f} ms ({np.quantile(moving, 0.95):.0f} ms)",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[1000, 10_000, 100_000])
    out = Path(__file__).parent / "results" / "report_page.md"
    parser.add_argument("--out", type=Path, default=out)
    options = parser.parse_args()
    lines = [
        "Three views, ten clusters, names and classes; a screen 1400 points wide; medians, in",
        "brackets the 95 % quantile. Chromium draws without a GPU.",
        "",
        "| samples | file | made in | first picture | all drawn in | frame of a moving map |",
        "|---|---|---|---|---|---|",
    ]
    for n in options.samples:
        with tempfile.TemporaryDirectory() as folder:
            lines.append("| " + " | ".join(measured(n, Path(folder))) + " |")
        print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
