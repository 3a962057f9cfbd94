"""Do frozen networks rank two networks as fine-tuning does? On the kept study `evidence/clothing`

`vit study` answers first with linear probes on frozen networks. Here the probes learn the kept study's numbers of
images, with its splits and its published weights, and test its test images. Prints a row for each size.

    python benchmarks/frozen_agreement.py FOLDER_OF_CLOTHING VIT.safetensors CNN.safetensors
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_series import series_of
from vit.data.checks.contents import read_contents
from vit.study.answer.summary import summarize
from vit.study.answer.wording import LINEAR_PROBE, short_percents
from vit.study.folder import collect
from vit.study.frozen.frozen import FROZEN_SEEDS, frozen_results
from vit.training.planning.plan import make_plan

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("weights", nargs=2, help="the ViT's and the CNN's file")
    given = parser.parse_args()
    results, protocol, failed = collect(ROOT / "evidence" / "clothing")
    tuned = summarize(results, protocol, failed, None)
    config = ROOT / "evidence" / "make" / "studies" / "clothing.yaml"
    options = read_words([given.folder, "--config", str(config), "--wandb=off"])
    recipes = {name: next(iter(choices.values())) for name, choices in series_of(options).items()}
    for (name, recipe), file in zip(recipes.items(), given.weights, strict=True):
        recipes[name] = replace(recipe, model=replace(recipe.model, init_from=file))
    source = make_plan(recipes["ViT"]).source
    contents = read_contents(source)
    if contents.split_hashes(source) != protocol["fingerprints"]:
        raise SystemExit(f"the images of {given.folder} are not those of the kept study")
    probes = []
    with tempfile.TemporaryDirectory() as folder:
        for name, recipe in recipes.items():
            hashes = contents.by_path(source)
            probes += frozen_results(name, recipe, tuned.sizes, [source] * FROZEN_SEEDS, Path(folder), hashes)
    frozen = summarize(probes, {**protocol, "budget": LINEAR_PROBE}, [], None)
    print("| images | frozen: ViT, CNN | fine-tuned: ViT, CNN | fewer errors: frozen, fine-tuned | corrected p |")
    print("|---|---|---|---|---|")
    same = 0
    for place, size in enumerate(tuned.sizes):
        errors = [[one.points[place].mean for one in found.series] for found in (frozen, tuned)]
        cells = [", ".join(map(short_percents, pair)) for pair in errors]
        pair = [found.comparisons[0].differences[place] for found in (frozen, tuned)]
        ahead = ["ViT" if one.gap.value < 0 else "CNN" for one in pair]
        same += ahead[0] == ahead[1]
        p_values = ", ".join(f"{one.p_adjusted:.2g}" for one in pair)
        print(f"| {size:,} | {cells[0]} | {cells[1]} | {', '.join(ahead)} | {p_values} |")
    print(f"\nThe same network is ahead at {same} of {len(tuned.sizes)} sizes of 1 study.")


if __name__ == "__main__":
    main()
