"""`vit demo RUN|CKPT`: a page on this machine to drop images on, which says their labels and what spoke for them."""

import os
import shlex
import tempfile
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse.typing import PositiveInt

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import parse
from vit.commands.parser import Parser
from vit.console import Reporter, harmless
from vit.errors import ResourceError, UsageError, VitError, install

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vit.inference.predictor import Prediction, Predictor

HERE = "127.0.0.1"
PICTURE = 480  # pixels, of the longer side
FONTS = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")  # gradio's own come from Google


def demo(arguments: Sequence[str]) -> int:
    """Serve the page until Ctrl-C."""
    parser = Parser(
        "demo",
        "Serve a page on this machine to drop images on: their labels and probabilities, as 'vit predict' gives them, "
        "and a map of what spoke for the label, as 'vit explain --method best' draws it. Nothing leaves the machine.",
        "vit demo runs/photos/vit_tiny_patch16_224/20260101-120000",
    )
    parser.add_argument("model", metavar="RUN|CKPT", type=str, help="a run folder or a checkpoint")
    parser.add_argument("--host", type=str, default=HERE, help="0.0.0.0: others on your network may use it too")
    parser.add_argument("--port", type=PositiveInt | None, default=None, help="null: the first free one from 7860")
    parser.add_argument("--top_k", type=PositiveInt, default=5, help="classes that are shown")
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    given = parse(parser, arguments)
    check_model(given.model)
    if find_spec("gradio") is None:
        raise UsageError("the page needs gradio", install("demo"))

    from vit.inference.predictor import load

    predictor = load(given.model, given.device)
    reporter = Reporter()
    with tempfile.TemporaryDirectory(prefix="vit-demo-") as uploads:  # and nothing that was dropped stays
        page, address = launch(predictor, given.top_k, given.host, given.port, Path(uploads))
        reporter.line(f"{len(predictor.class_names):,} classes; open {address} in a browser, and end it with Ctrl-C")
        if given.host != HERE:
            reporter.notice("WARNING: whoever reaches this machine can use the page; there is no password")
        reporter.next_command(f"vit predict {shlex.quote(given.model)} FOLDER_OF_IMAGES --gallery")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            page.close(verbose=False)
    return 0


def launch(predictor: "Predictor", top_k: int, host: str, port: int | None, uploads: Path) -> tuple[Any, str]:
    """Begin to serve, in a thread of its own; returns gradio's page and its address.

    Raises:
        ResourceError: the port is taken.
    """
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1", GRADIO_TEMP_DIR=os.fspath(uploads)
    )
    import gradio

    from vit.data.decode import MAX_BYTES

    page = build(predictor, top_k)
    theme = gradio.themes.Default(font=FONTS[0], font_mono=FONTS[1])
    options = {"share": False, "quiet": True, "ssr_mode": False, "footer_links": [], "max_file_size": MAX_BYTES}
    try:
        _, address, _ = page.launch(
            server_name=host, server_port=port, prevent_thread_lock=True, theme=theme, **options
        )
    except OSError as error:
        raise ResourceError(f"cannot serve on {host}, port {port or '7860 and up'}: {error}", "give --port") from error
    return page, address


def build(predictor: "Predictor", top_k: int) -> Any:
    """gradio's page: files in; a gallery, classes and a map of the chosen image, and what could not be read out.

    Labels are there before the map is: it takes a backward pass more.
    """
    import gradio

    def predict(paths: list[str] | None) -> tuple[Any, ...]:
        rows = list(predictor.predict_files(paths or [], top_k))
        good = [row for row in rows if row.status == "ok"]
        bad = [f"{harmless(Path(row.path).name)}: {harmless(row.error)}" for row in rows if row.status != "ok"]
        shown = [(_picture(row.path), f"{row.label} {row.probability:.1%}") for row in good]
        return shown, _chosen(good, 0), gradio.update(value="\n".join(bad), visible=bool(bad)), good

    def choose(rows: list[Any], event: gradio.SelectData) -> dict[str, float] | None:
        return _chosen(rows, event.index)

    def look(rows: list[Any], place: int = 0) -> tuple[Any, Any]:
        picture, words = look_at(predictor, rows[place].path) if place < len(rows) else (None, "")
        return gradio.update(value=picture, visible=picture is not None), gradio.update(
            value=words, visible=bool(words)
        )

    def look_again(rows: list[Any], event: gradio.SelectData) -> tuple[Any, Any]:
        return look(rows, event.index)

    with gradio.Blocks(title="vit demo", analytics_enabled=False) as page:
        files = gradio.File(label="Drop images here", file_count="multiple", type="filepath")
        rows = gradio.State([])
        with gradio.Row():
            pictures = gradio.Gallery(
                label="Choose one to see its classes",
                columns=4,
                object_fit="contain",
                scale=2,
                buttons=["download", "fullscreen"],  # by default also one that sends pictures to Hugging Face
            )
            with gradio.Column(scale=1):
                class_names = gradio.Label(label="Classes", num_top_classes=top_k)
                seen = gradio.Image(show_label=False, visible=False, interactive=False, buttons=["fullscreen"])
                words = gradio.Textbox(show_label=False, container=False, visible=False, interactive=False)
        problems = gradio.Textbox(label="Could not be read", visible=False, interactive=False)
        one_by_one: dict[str, Any] = {"concurrency_id": "network"}  # a map hooks into the network that predicts
        private = {**one_by_one, "api_visibility": "private"}
        dropped = files.change(
            predict, files, [pictures, class_names, problems, rows], api_name="predict", **one_by_one
        )
        dropped.then(look, rows, [seen, words], **private)
        pictures.select(choose, rows, class_names, **private)
        pictures.select(look_again, rows, [seen, words], **private)
    return page


def look_at(predictor: "Predictor", path: str) -> "tuple[npt.NDArray[np.uint8] | None, str]":
    """What the network saw of an image (H, W, 3) under the map of its label, and what it shows; None, and why not."""
    from vit.data.decode import ImageError
    from vit.explain.explainer import Explainer
    from vit.report.overlay import overlay

    try:
        found = Explainer(predictor, "best", measured=False).explain(path)
    except (ImageError, VitError) as error:
        return None, f"No map: {error}"
    ((method, importance),) = found.maps.items()
    words = f"Yellow spoke for {harmless(found.explained)} ({method}); each map has a scale of its own."
    return overlay(found.image, importance).permute(1, 2, 0).numpy(), words


def _picture(path: str) -> Any:
    """(H, W, 3) uint8, for gradio: as the decoder sees it, upright, no larger than a screen needs."""
    from vit.data.decode import read_image
    from vit.report.thumbnails import shrunk

    return shrunk(read_image(path), PICTURE).permute(1, 2, 0).numpy()


def _chosen(rows: "Sequence[Prediction]", place: int) -> dict[str, float] | None:
    """The classes of one image with their probabilities; None where there is no image."""
    return dict(rows[place].top) if place < len(rows) else None
