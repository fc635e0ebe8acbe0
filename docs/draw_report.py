"""Draw the screenshots of a report in docs/images, by a headless Chromium.

python docs/draw_report.py
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from omcal import OMCAL, Consensus
from omcal.datasets import load_digits_views

IMAGES = Path(__file__).parent / "images"
PARTS = {"report_map": (0, 1560), "report_features": (2137, 2815)}  # top and bottom, in pixels
WIDTH = 1280


def screenshot(page: Path, height: int, target: Path) -> None:
    """Write a picture of the first `height` pixels of the page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("needs Chromium: apt install chromium")
    subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            "--virtual-time-budget=8000",
            f"--window-size={WIDTH},{height}",
            f"--screenshot={target}",
            page.as_uri(),
        ],
        check=True,
        stderr=subprocess.DEVNULL,
        timeout=240,
    )


def main() -> None:
    """Fit the built-in digits, write their report, and draw its parts."""
    data = load_digits_views()
    model = Consensus(OMCAL(n_clusters=10), random_state=0).fit(data.views)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        title = f"Handwritten digits: {data.n_samples:,} samples in 10 clusters"
        model.report(page, data.views, data.labels, title=title)
        shot = Path(folder) / "shot.png"
        screenshot(page, max(bottom for _, bottom in PARTS.values()), shot)
        for name, (top, bottom) in PARTS.items():
            part = Image.open(shot).convert("RGB").crop((0, top, WIDTH, bottom))
            # A palette makes it four times smaller, and keeps the colours of single points.
            part = part.quantize(256, method=Image.Quantize.FASTOCTREE)
            part.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
