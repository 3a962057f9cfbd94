"""`vit embed` and `vit similar`: a vector for each file, and the nearest files."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import vit as library
from tests.commands.following import next_words
from vit.checkpoints.format import checkpoint_content
from vit.checkpoints.load import load
from vit.data.core.image_bytes import content_hash
from vit.data.pixels.decode import decode_image
from vit.errors import DataError
from vit.inference.embeddings import Embedding, EmbeddingModel, Embeddings, write_embeddings
from vit.inference.predictor import load as load_predictor

pytestmark = pytest.mark.usefixtures("here")


def test_every_file_has_a_row_and_bad_ones_are_named(vit, digits_run, mixed, here):
    answer = vit("embed", digits_run.path, mixed).ok("what its last layer reads, not normalized")
    rows = pq.read_table(here / "embeddings.parquet").to_pylist()
    assert len(rows) == 20
    bad = [row for row in rows if row["vector"] is None]
    assert len(bad) == 6 and all(row["error"] and row["status"] != "ok" for row in bad)
    assert "WARNING: 6 of 20 files have no vector" in answer.err and f"{mixed / 'notes.txt'}: " in answer.err
    row = next(row for row in rows if row["path"].endswith("a b.png"))
    data = (mixed / "a b.png").read_bytes()
    engine = load_predictor(digits_run.path).engine
    assert engine.keep_features()
    pixels = engine.preprocess(decode_image(data, "", engine.preprocess.decoding))
    expected = engine.logits_and_features(pixels[None])[1][0]
    assert torch.cosine_similarity(torch.tensor(row["vector"]), expected, dim=0) > 1 - 1e-6
    assert row["content_hash"] == content_hash(data)
    assert next_words(answer)[:2] == ["similar", "embeddings.parquet"]
    assert vit("embed", digits_run.path, mixed, "--on_bad", "fail").code == 5
    assert (here / "embeddings-2.parquet").is_file()
    assert vit("embed", digits_run.path, mixed / "notes.txt").code == 5
    vit("similar", "embeddings-3.parquet", mixed).failed(3, "none of its 1 images could be read")


def test_a_file_that_appears_meanwhile_costs_no_vectors(vit, digits_run, colors, here, monkeypatch):
    """Two `vit embed` in one folder take one name: the later one ended with an internal error, and wrote nothing."""

    def write(path, *rest):
        path.write_text("of another program")
        write_embeddings(path, *rest)

    monkeypatch.setattr("vit.inference.embeddings.write_embeddings", write)
    answer = vit("embed", digits_run.path, colors / "red")
    (kept,) = here.glob("embeddings-*.parquet")
    assert answer.code == 7 and f"meanwhile: it is kept, and the new file is {kept.name}" in answer.err
    assert (here / "embeddings.parquet").read_text() == "of another program" and len(Embeddings.read(kept).paths) > 0


def test_neighbors_are_the_nearest_ones_without_copies(digits_run, colors, here):
    made = library.embed(digits_run.path, colors, recursive=True, output="own.parquet", quiet=True)
    known = Embeddings.read(made.output)
    assert (made.num_files, made.unreadable) == (42, {}) and known.vectors.shape == (42, made.width)
    query = colors / "red" / "03.png"
    found = library.similar("own.parquet", query, neighbors=4, quiet=True)
    (one,) = found.images
    unit = known.vectors / np.linalg.norm(known.vectors, axis=1, keepdims=True)
    own = known.paths.index(str(query))
    cosines = unit @ unit[own]
    order = [place for place in np.argsort(-cosines) if place != own][:4]
    assert one.copies == (str(query),) and len(one.neighbors) == 4
    assert [cosine for _, cosine in one.neighbors] == pytest.approx(cosines[order].tolist(), abs=0.01)
    html = found.page.read_text()
    assert html.count("<img ") == 5 and "the same file as" in html


def test_vectors_of_another_model_are_refused(vit, digits_run, colors, here):
    assert vit("embed", digits_run.path, colors / "red", "--output", "red.parquet").code == 0
    network, description = load(digits_run.best)
    with torch.no_grad():
        network.norm.weight[0] += 0.5
    torch.save(checkpoint_content(description, network.state_dict()), here / "other.ckpt")
    answer = vit("similar", "red.parquet", colors / "red" / "01.png", "--model", "other.ckpt")
    assert answer.code == 2 and "red.parquet has vectors of another model" in answer.err
    shutil.copy(digits_run.best, here / "moved.ckpt")
    vit("similar", "red.parquet", colors / "red" / "01.png", "--model", "moved.ckpt").ok("cosine  ")


def test_a_file_of_others_fetches_no_model_unasked(vit, colors, here):
    made = EmbeddingModel("hf:someone/model", "0", "vit", {})
    write_embeddings(here / "theirs.parquet", made, 2, [Embedding("a.png", "ok", np.ones(2, dtype=np.float32))])
    vit("similar", "theirs.parquet", colors / "red").failed(2, "give --model hf:someone/model to agree")


def test_other_files_are_no_embeddings(vit, digits_run, colors, here):
    (here / "bad.parquet").write_bytes(b"PAR1 nothing")
    vit("similar", "bad.parquet", colors / "red").failed(3, "bad.parquet is not a file of embeddings")
    assert vit("predict", digits_run.path, colors / "red", "--output", "rows.parquet").code == 0
    with pytest.raises(DataError, match=r"rows\.parquet is not a file of embeddings"):
        Embeddings.read(here / "rows.parquet")
    vit("similar", "gone.parquet", colors / "red").failed(3, "there is no file gone.parquet")
    vit("embed", digits_run.path, colors / "red", "--output", "rows.csv").failed(2, "does not end in .parquet")
    vit("embed", "gone/", colors / "red").failed(4, "there is no checkpoint gone")
