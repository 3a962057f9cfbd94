"""`vit demo RUN|CKPT`: a page on this machine that labels and explains dropped images"""

import os
import shlex
import tempfile
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, PositiveInt, trusted_hosts, warn_of_unfinished
from vit.console import Reporter, count_of, harmless
from vit.errors import ResourceError, UsageError, VitError, install

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vit.extras.demo.facts import Example, Heading
    from vit.inference.prediction import Prediction
    from vit.inference.predictor import Predictor

HERE = "127.0.0.1"
PICTURE = 480  # pixels of the longer side
DROP_HEIGHT, EXAMPLE_HEIGHT = 150, 165  # pixels of the place for files, and of the row of examples
FONTS = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")  # gradio's own fonts come from Google


def demo(
    model: Model,
    *,
    host: str = HERE,
    port: PositiveInt | None = None,
    top_k: PositiveInt = 5,
    device: str = "auto",
    unfinished: bool = False,
) -> None:
    """Serve a page on this machine that labels dropped images, until Ctrl-C.

    The page shows labels and probabilities as 'vit predict' gives them, and a map as 'vit explain --method best' draws
    it. Validation images of the run are examples, where they are still in their place. Nothing leaves the machine.

    Args:
        model: a run folder or a checkpoint
        host: 0.0.0.0: others on your network can use the page too; it then has no examples
        port: null: the first free port from 7860
        top_k: number of classes shown; of several labels, all labels of an image are shown
        device: cpu, cuda or mps; auto: an accelerator if there is one
        unfinished: whether a model whose training is not finished may be used, as it is

    Raises:
        VitError: the model cannot be used, gradio is not installed, or the port is taken.

    Example:
        vit demo runs/photos/vit_tiny_patch16_224/20260101-120000
    """
    model = os.fspath(model)
    check_model(model, unfinished)
    if find_spec("gradio") is None:
        raise UsageError("the page needs gradio", install("demo"))

    from vit.extras.demo.facts import examples_of, heading_of
    from vit.inference.predictor import load

    predictor = load(model, device, unfinished=unfinished)
    reporter = Reporter()
    warn_of_unfinished(predictor.lacks, reporter)
    with tempfile.TemporaryDirectory(prefix="vit-demo-") as uploads:  # dropped images are removed at the end
        heading = heading_of(Path(model).expanduser(), predictor)
        examples = examples_of(Path(model).expanduser(), Path(uploads)) if host == HERE else []  # others see no images
        page, address = launch(Page(predictor, top_k, heading, examples), host, port, Path(uploads))
        classes = count_of(len(predictor.class_names), "class", "classes")
        reporter.line(f"{classes}; open {address} in a browser; Ctrl-C ends the page")
        if host != HERE:
            reporter.notice("WARNING: everyone who can reach this machine can use the page, because it has no password")
        reporter.next_command(f"vit predict {shlex.quote(model)} FOLDER_OF_IMAGES --gallery")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            page.close(verbose=False)


class Page(NamedTuple):
    """What a page shows."""

    predictor: "Predictor"  # the model
    top_k: int  # number of classes
    heading: "Heading"  # what is said of the model
    examples: "Sequence[Example]" = ()  # images to choose from


def launch(content: Page, host: str, port: int | None, uploads: Path) -> tuple[Any, str]:
    """Start to serve in a separate thread: the page of gradio, and its address. ResourceError: the port is taken."""
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1", GRADIO_TEMP_DIR=os.fspath(uploads)
    )
    import gradio
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from vit.data.core.image_bytes import MAX_BYTES

    page = build(content)
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=trusted_hosts(host), www_redirect=False)
    try:
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=True,
            share=False,
            quiet=True,
            ssr_mode=False,
            footer_links=[],
            max_file_size=MAX_BYTES,
            theme=gradio.themes.Default(font=FONTS[0], font_mono=FONTS[1]),
            app_kwargs={"middleware": [guard]},
        )
    except OSError as error:
        raise ResourceError(f"cannot serve on {host}, port {port or '7860 and up'}: {error}", "give --port") from error
    return page, address


def build(content: Page) -> Any:
    """The page of gradio: dropped files become a gallery, classes and a map of one image, and a list of problems.

    Labels show before the map, because the map takes one more backward pass. Among several labels of an image, none
    stands above the others.
    """
    import gradio

    predictor, task = content.predictor, content.predictor.task

    def predict(paths: list[str] | None) -> tuple[Any, ...]:
        rows = list(predictor.predict_files(paths or [], content.top_k))
        good = [row for row in rows if row.status == "ok"]
        bad = [f"{harmless(Path(row.path).name)}: {harmless(row.error)}" for row in rows if row.status != "ok"]
        gallery = [(_picture(row.path, predictor), _caption(row)) for row in good]
        return gallery, _classes(good, 0), gradio.update(value="\n".join(bad), visible=bool(bad)), good

    def predict_example(event: gradio.SelectData) -> tuple[Any, ...]:
        return predict([content.examples[event.index].path])

    def choose(rows: list[Any], event: gradio.SelectData) -> dict[str, float] | None:
        return _classes(rows, event.index)

    def explain(rows: list[Any], place: int = 0) -> tuple[Any, Any]:
        picture, text = look_at(predictor, rows[place].path) if place < len(rows) else (None, "")
        return tuple(gradio.update(value=value, visible=bool(text) and value is not None) for value in (picture, text))

    def explain_chosen(rows: list[Any], event: gradio.SelectData) -> tuple[Any, Any]:
        return explain(rows, event.index)

    with gradio.Blocks(title=f"vit demo: {harmless(content.heading.title)}", analytics_enabled=False) as page:
        gradio.HTML(content.heading.html)
        files = gradio.File(label="Drop images here", file_count="multiple", type="filepath", height=DROP_HEIGHT)
        examples = None
        if content.examples:
            gradio.HTML("<p>Or choose a validation image, shown with its label in the data set:</p>")
            examples = gradio.Gallery(
                [(_picture(one.path, predictor), harmless(one.label)) for one in content.examples],
                label="Validation images",
                show_label=False,
                columns=len(content.examples),
                height=EXAMPLE_HEIGHT,
                object_fit="contain",
                allow_preview=False,
                interactive=False,
                buttons=["fullscreen"],
            )
        rows = gradio.State([])
        with gradio.Row():
            pictures = gradio.Gallery(
                label="Choose one to see its classes",
                columns=2,
                fit_columns=False,
                object_fit="contain",
                scale=2,
                buttons=["download", "fullscreen"],  # gradio's own include one that sends pictures to Hugging Face
            )
            with gradio.Column(scale=1):
                class_names = gradio.Label(
                    label=task.kinds.capitalize(),
                    num_top_classes=content.top_k if task.is_exclusive else None,  # an image may have more labels
                    show_heading=task.is_exclusive,
                )
                picture = gradio.Image(show_label=False, visible=False, interactive=False, buttons=["fullscreen"])
                text = gradio.Textbox(show_label=False, container=False, visible=False, interactive=False)
        problems = gradio.Textbox(label="Could not be read", visible=False, interactive=False)

        one_by_one: dict[str, Any] = {"concurrency_id": "network"}  # a map hooks into the network that predicts
        private = {**one_by_one, "api_visibility": "private"}
        answers, explained = [pictures, class_names, problems, rows], [picture, text]
        files.change(predict, files, answers, api_name="predict", **one_by_one).then(
            explain, rows, explained, **private
        )
        if examples is not None:
            examples.select(predict_example, None, answers, **private).then(explain, rows, explained, **private)
        pictures.select(choose, rows, class_names, **private)
        pictures.select(explain_chosen, rows, explained, **private)
    return page


def look_at(predictor: "Predictor", path: str) -> "tuple[npt.NDArray[np.uint8] | None, str]":
    """(the image (H, W, 3) under the map of its label, a sentence on the map); (None, the reason) without a map."""
    from vit.data.pixels.decode import ImageError
    from vit.explain.explainer import Explainer
    from vit.report.page.image_figures import overlay

    try:
        explanation = Explainer(predictor, "best", with_faithfulness=False).explain(path)
    except (ImageError, VitError) as error:
        return None, f"No map: {error}"
    ((method, importance),) = explanation.maps.items()
    text = f"Yellow spoke for {harmless(explanation.explained)} ({method}); each map has a scale of its own."
    return overlay(explanation.image, importance).permute(1, 2, 0).numpy(), text


def _caption(row: "Prediction") -> str:
    """The class of an image with its probability, or its labels, each with its probability."""
    if row.probability is not None:
        return f"{row.label} {row.probability:.1%}"
    return ", ".join(f"{name} {probability:.1%}" for name, probability in row.top if name in row.labels) or "no label"


def _picture(path: str, predictor: "Predictor") -> Any:
    """An upright image (H, W, 3) uint8 for gradio, no larger than a screen needs."""
    from vit.data.pixels.decode import read_image
    from vit.data.pixels.planes import shown
    from vit.report.picture_page import shrunk

    pixels = read_image(path, predictor.preprocess.decoding)
    return shrunk(shown(pixels), PICTURE).permute(1, 2, 0).numpy()


def _classes(rows: "Sequence[Prediction]", place: int) -> dict[str, float] | None:
    """The most probable classes of one image with their probabilities; None without an image."""
    return dict(rows[place].top) if place < len(rows) else None
