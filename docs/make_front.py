"""Draws the README's first picture: the curve of a study beside the report of a run.

    python docs/make_front.py RUN [--browser chromium]

The curve shows the kept runs of the row `digits` of evidence/. The report is `RUN/report.html`, photographed by a
browser without a window.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from vit.report.page.style import look, rendered

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "evidence" / "make"))

from definitions import read_evidence  # noqa: E402
from kept import Kept  # noqa: E402

PICTURE = ROOT / "docs" / "figures" / "front.png"
WIDTH, HEIGHT = 520, 500  # of the part of the report that is shown, in CSS pixels


def study_rows() -> list[list[float]]:
    """Training images, then error, low and high (%) of the ViT and of the CNN, from evidence/."""
    kept = Kept.of(read_evidence().rows["digits"])
    assert kept is not None, "make results ROW=digits"
    by_size = zip(*(series.points for series in kept.findings.series), strict=True)
    return [
        [vit.num_images, *(100 * float(end) for one in (vit.mean, cnn.mean) for end in (one.value, one.low, one.high))]
        for vit, cnn in by_size
    ]


def photographed(page: Path, browser: str) -> Image.Image:
    """The top of a page as a browser shows it, at twice its pixels."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "page.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2"]
        options += [f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}"]
        command = [browser, *options, page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
        with Image.open(picture) as image:
            return image.convert("RGB")


def draw(report: Image.Image) -> Figure:
    """The picture: the curve on the left, the report on the right."""
    rows = study_rows()
    with plt.rc_context({"font.size": 13}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.6), width_ratios=[1, 1.04], layout="constrained")
        for series, name in enumerate(("ViT", "CNN")):
            color, marker = look(series)[:2]
            sizes, means, lows, highs = zip(
                *[(row[0], *row[1 + 3 * series : 4 + 3 * series]) for row in rows], strict=True
            )
            shift = [size * (0.98, 1.02)[series] for size in sizes]
            below = [mean - low for mean, low in zip(means, lows, strict=True)]
            above = [high - mean for mean, high in zip(means, highs, strict=True)]
            left.errorbar(shift, means, (below, above), color=color, marker=marker, capsize=3, label=name)
        left.set(xscale="log", yscale="log", xlabel="training images", ylabel="test error (%)")
        left.set_xticks([row[0] for row in rows], [f"{row[0]:,.0f}" for row in rows])
        left.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        left.minorticks_off()
        left.legend(frameon=False, loc="lower left")
        left.set_title("vit study: ViT or CNN, with how many images?", loc="left")
        right.imshow(report)
        right.set(xticks=[], yticks=[])
        right.spines[:].set(visible=True, color="#bbbbbb")
        right.set_title("vit train: a report for every run", loc="left")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder whose report is shown")
    parser.add_argument("--browser", default="chromium", help="browser that photographs the report")
    given = parser.parse_args()
    picture = rendered(draw(photographed(given.run / "report.html", given.browser)), "png")
    Image.open(io.BytesIO(picture)).save(PICTURE, "PNG", optimize=True)
