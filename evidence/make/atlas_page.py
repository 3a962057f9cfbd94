"""docs/atlas.md: its tables and generated sentences, from evidence/atlas/*.csv alone."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from atlas_rows import CHOSEN, SIDE, SMALL_SIDE, WHOLE, DifferenceRow, ErrorRow, ForecastRow, SetRow, read_rows
from atlas_sets import read_sets
from random_effects import RandomEffects, random_effects
from sentences import p_text, table_line

from vit.inference.scores.intervals import Metric
from vit.study.findings import ALPHA
from vit.study.statistics.paired import hochberg

BLOCK = re.compile(r"(<!-- written by `make results`: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LEAST_SETS = 3  # of a mean over sets
By = dict[int, dict[str, DifferenceRow]]  # {number of images: {set: difference}}


@dataclass(frozen=True)
class Atlas:
    """The kept rows."""

    sets: list[SetRow]
    errors: list[ErrorRow]
    differences: list[DifferenceRow]
    forecasts: list[ForecastRow]

    @classmethod
    def read(cls) -> "Atlas":
        """The rows of evidence/atlas/."""
        return cls(read_rows(SetRow), read_rows(ErrorRow), read_rows(DifferenceRow), read_rows(ForecastRow))

    def at(self, stage: str, side: int) -> By:
        """The differences of frozen or tuned networks, sizes ascending."""
        own = [row for row in self.differences if (row.stage, row.side) == (stage, side)]
        sizes = sorted({row.images for row in own})
        return {size: {row.set: row for row in own if row.images == size} for size in sizes}

    def error(self, row: DifferenceRow, network: str) -> float:
        """The mean error of a network over the seeds of a difference."""
        key = (row.set, row.stage, row.side, row.images, network)
        found = [one.error for one in self.errors if (one.set, one.stage, one.side, one.images, one.network) == key]
        return sum(found) / len(found)


def mean_of(rows: Collection[DifferenceRow]) -> RandomEffects:
    """The mean difference over sets."""
    return random_effects([row.gap for row in rows], [row.standard_error for row in rows])


def means(by: By) -> dict[int, RandomEffects]:
    """{number of images: mean over the sets that have this number}, where these are enough; p corrected for all."""
    found = {size: mean_of(own.values()) for size, own in by.items() if len(own) >= LEAST_SETS}
    adjusted = hochberg([one.p for one in found.values()])
    return {size: replace(one, p=p) for (size, one), p in zip(found.items(), adjusted, strict=True)}


def apart(rows: Collection[DifferenceRow]) -> dict[str, int]:
    """{set: 1 where the ViT makes fewer errors, -1 where the CNN does}, after Hochberg's correction for these rows."""
    adjusted = hochberg([row.p for row in rows])
    return {row.set: 1 if row.gap > 0 else -1 for row, p in zip(rows, adjusted, strict=True) if p < ALPHA}


def points(value: float, low: float | None, high: float | None) -> str:
    """A difference in points with its interval."""
    if low is None or high is None:
        return f"{100 * value:+z.1f}"
    low, high = max(low, -1.0), min(high, 1.0)  # no errors differ by more
    return f"{100 * value:+z.1f} ({100 * low:+z.1f} to {100 * high:+z.1f})"


def share(count: int, total: int, unit: str = "") -> str:
    """Count of total in percent, with its interval."""
    found = Metric.fraction(count, total)
    return f"{count} of {total}{unit} ({100 * found.value:.0f} %, {100 * found.low:.0f} to {100 * found.high:.0f})"


def answer(atlas: Atlas) -> Iterator[str]:
    """The answer in sentences."""
    by = atlas.at("frozen", SIDE)
    if not (found := means(by)):
        yield f"Fewer than {LEAST_SETS} sets are finished."
        return
    most = max(found, key=lambda size: (len(by[size]), size))
    for size in dict.fromkeys((min(found), most)):
        yield _mean_sentence(size, found[size])
    own = by[most]
    sides = list(apart(own.values()).values())
    yield (
        f"- With {most:,} images, a corrected test puts the CNN ahead on {sides.count(-1)} of {len(own)} sets and the "
        f"ViT on {sides.count(1)}, and cannot decide {len(own) - len(sides)}."
    )
    yield from _change(
        f"Images of {SMALL_SIDE} instead of {SIDE} pixels add", own, atlas.at("frozen", SMALL_SIDE), most
    )
    yield from _change("EfficientNet-Lite2 in the place of Lite0 adds", own, atlas.at("second", SIDE), most)


def _change(what: str, whole: dict[str, DifferenceRow], by: By, size: int) -> Iterator[str]:
    """How far a change moves the difference. Its standard errors are those of unpaired differences."""
    both = [(whole[name], row) for name, row in by.get(size, {}).items() if name in whole]
    if len(both) < LEAST_SETS:
        return
    errors = [(one.standard_error**2 + other.standard_error**2) ** 0.5 for one, other in both]
    found = random_effects([other.gap - one.gap for one, other in both], errors)
    yield (
        f"- {what} {points(found.mean, found.low, found.high)} points to CNN minus ViT, with {size:,} images on "
        f"{found.count} sets."
    )


def _mean_sentence(size: int, found: RandomEffects) -> str:
    fewer = "fewer" if found.mean < 0 else "more"
    ends, further = (
        points(found.mean, *one).partition(" ")[2].strip("()")
        for one in ((found.low, found.high), (found.next_low, found.next_high))
    )
    chance = "" if found.p < ALPHA else " A test over all numbers of images cannot exclude chance."
    return (
        f"- With {size:,} images, the frozen CNN makes {100 * abs(found.mean):.1f} points {fewer} errors than the "
        f"frozen ViT (mean of {found.count} sets; CNN minus ViT {ends}).{chance} Expect {further} points on a further "
        "set."
    )


def by_size(atlas: Atlas) -> Iterator[str]:
    """The means over sets, a row for each number of images."""
    heads = (
        "networks", "images", "sets", "CNN - ViT (points)", "p", "a further set", "tau",
        "CNN ahead", "ViT ahead", "undecided",
    )  # fmt: skip
    yield table_line(heads)
    yield table_line(["---"] * len(heads))
    for name, (stage, side) in stages().items():
        by = atlas.at(stage, side)
        for size, one in means(by).items():
            sides = list(apart(by[size].values()).values())
            ahead = (sides.count(-1), sides.count(1), one.count - len(sides))
            yield table_line((
                name, f"{size:,}", str(one.count), points(one.mean, one.low, one.high),
                p_text(one.p).removeprefix("= "), points(one.mean, one.next_low, one.next_high).partition(" ")[2],
                f"{100 * one.deviation:.1f}", *map(str, ahead),
            ))  # fmt: skip


def stages() -> dict[str, tuple[str, int]]:
    """{row of the page: its networks and the side of their images}."""
    return {
        f"frozen, {SIDE} px": ("frozen", SIDE),
        f"frozen, {SIDE} px, Lite2": ("second", SIDE),
        f"frozen, {SMALL_SIDE} px": ("frozen", SMALL_SIDE),
        f"fine-tuned, {SIDE} px": ("tuned", SIDE),
        f"fine-tuned, {SMALL_SIDE} px": ("tuned", SMALL_SIDE),
    }


def sets(atlas: Atlas) -> Iterator[str]:
    """A row for each set: its images, license, and the errors with the most images."""
    heads = (
        "set", "photographs of", "images", "classes", "test", "license", "n", "ViT errors (%)", "CNN errors (%)",
        "CNN - ViT (points)",
    )  # fmt: skip
    yield table_line(heads)
    yield table_line(["---"] * len(heads))
    facts = {row.set: row for row in atlas.sets if (row.stage, row.side) == ("frozen", SIDE)}
    by = atlas.at("frozen", SIDE)
    for name, one in read_sets().items():
        if name not in facts:
            continue
        row, last = facts[name], [own[name] for own in by.values() if name in own][-1]
        test = f"all, {row.folds} folds" if row.folds else f"{row.test:,}"
        errors = [f"{100 * atlas.error(last, network):.1f}" for network in ("ViT", "CNN")]
        gap = points(last.gap, last.low, last.high)
        link, about = f"[{name}]({one.url})", f"{one.kind}{f': {one.source}' if one.source else ''}"
        cells = (link, about, f"{row.images:,}", str(row.classes), test, one.license, f"{last.images:,}", *errors, gap)
        yield table_line(cells)


def beside_frozen(atlas: Atlas) -> dict[DifferenceRow, DifferenceRow]:
    """{difference of fine-tuned networks: that of frozen ones with the same set, side and number of images}."""
    tuned = sorted((row for row in atlas.differences if row.stage == "tuned"), key=_place)
    found = {own: atlas.at("frozen", own.side).get(own.images, {}).get(own.set) for own in tuned}
    return {own: beside for own, beside in found.items() if beside is not None}


def agreement(atlas: Atlas) -> Iterator[str]:
    """Whether frozen and fine-tuned networks have the same one ahead, by set, side and number of images."""
    yield table_line(("set", "side", "images", "seeds", "fine-tuned", "frozen", "same ahead"))
    yield table_line(["---"] * 7)
    rows = beside_frozen(atlas)
    for own, beside in rows.items():
        words = [points(row.gap, row.low, row.high) for row in (own, beside)]
        side, same = f"{own.side} px", "yes" if own.gap * beside.gap > 0 else "no"
        yield table_line((own.set, side, f"{own.images:,}", str(own.seeds), *words, same))
    decided = [own.gap * beside.gap > 0 for own, beside in rows.items() if max(own.p, beside.p) < ALPHA]
    if rows:
        yield ""
        yield (
            f"The same was ahead in {same_ahead(atlas, SIDE)} at {SIDE} pixels, and in "
            f"{same_ahead(atlas, SMALL_SIDE)} at {SMALL_SIDE}. Both tests decide in {len(decided)} of them without a "
            f"correction, and agree in {sum(decided)}. Cells of one set share test images, so the intervals are too "
            "narrow."
        )


def agreement_text(atlas: Atlas) -> str:
    """How often frozen and fine-tuned networks have the same one ahead, as `vit study` says it, too."""
    large, small = (same_ahead(atlas, side) for side in (SIDE, SMALL_SIDE))
    sets = len({own.set for own in beside_frozen(atlas)})
    return f"on {sets} sets the same was ahead in {large} at {SIDE} pixels and {small} at {SMALL_SIDE}"


def same_ahead(atlas: Atlas, side: int) -> str:
    """In how many cases of a side the same network was ahead, with an interval."""
    same = [own.gap * beside.gap > 0 for own, beside in beside_frozen(atlas).items() if own.side == side]
    return share(sum(same), len(same))


def _place(row: DifferenceRow) -> tuple[int, int, int]:
    """The place of a fine-tuned row: large sides first, then sets and numbers of images."""
    return -row.side, list(read_sets()).index(row.set), row.images


def forecasts(atlas: Atlas) -> Iterator[str]:
    """How often the forecast of smaller sizes held at a larger one."""
    yield table_line(("networks", "how far ahead", "forecasts held", "curves with all held", "half width (median)"))
    yield table_line(["---"] * 5)
    for name, (stage, side) in stages().items():
        own = [row for row in atlas.forecasts if (row.stage, row.side) == (stage, side)]
        for words, least, most in (("up to 2 times", 0.0, 2.0), ("2 to 4 times", 2.0, 4.0)):
            rows = [row for row in own if least < row.images / row.known_to <= most]
            if not rows:
                continue
            held = {row: row.low <= row.measured <= row.high for row in rows}
            curves: dict[tuple[str, str], list[bool]] = {}
            for row in rows:
                curves.setdefault((row.set, row.network), []).append(held[row])
            widths = sorted((row.high - row.low) / 2 / row.forecast for row in rows)
            whole = f"{sum(map(all, curves.values()))} of {len(curves)}"
            half = f"{100 * widths[len(widths) // 2]:.0f} % of the error"
            yield table_line((name, words, share(sum(held.values()), len(rows)), whole, half))


def unfinished(atlas: Atlas) -> Iterator[str]:
    """What is missing."""
    wanted = {(name, stage, SIDE) for name in read_sets() for stage in ("frozen", "second")}
    wanted |= {(name, "frozen", SMALL_SIDE) for name in CHOSEN}
    missing = sorted(wanted - {(row.set, row.stage, row.side) for row in atlas.sets})
    own = [(row.set, row.side) for row in atlas.errors if row.stage == "tuned"]
    done = {(name, side): own.count((name, side)) for side in (SMALL_SIDE, SIDE) for name in CHOSEN}
    if not missing and min(done.values()) >= WHOLE:
        yield f"All sets are finished: {WHOLE} trainings at each side for each of {', '.join(CHOSEN)}."
        return
    trained = ", ".join(f"{name} {side} px {count}" for (name, side), count in done.items() if count < WHOLE)
    left = ", ".join(f"{name} at {side} pixels ({stage})" for name, stage, side in missing)
    frozen = f"Frozen networks lack {left}." if left else "All frozen networks are measured."
    yield f"Finished, of {WHOLE} trainings: {trained}. {frozen} `make results ROW=atlas` goes on."


BLOCKS = {one.__name__: one for one in (answer, by_size, sets, agreement, forecasts, unfinished)}


def page(text: str, atlas: Atlas) -> str:
    """The page with its generated blocks written again."""
    return BLOCK.sub(lambda found: "\n".join((found[1], *BLOCKS[found[2]](atlas), "", found[3])), text)


def with_agreement(code: str, atlas: Atlas) -> str:
    """The source of `vit.study.frozen.frozen` with its constant AGREEMENT written again."""
    return re.sub(r'(?<=^AGREEMENT = ").*(?="$)', agreement_text(atlas), code, count=1, flags=re.MULTILINE)
