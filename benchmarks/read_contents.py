"""Cost of knowing every image by its content before a training, beside one pass of decoding.

    python benchmarks/read_contents.py FOLDER            (DATA as for vit train; files)

The script measures processor time, because other work changes the clock time. Both sides read the same files in turn,
three times.
"""

import sys
import time

from vit.data.contents import read_contents
from vit.data.decode import read_image
from vit.data.preprocess import Preprocess
from vit.data.sources import open_source
from vit.data.threads import decode_threads


def main(data: str) -> None:
    source = open_source(data)
    files = [samples.file(place) for samples in source.splits.values() for place in range(len(samples))]
    preprocess = Preprocess(224, 0.875)
    print(f"{len(files):,} files, {sum(path.stat().st_size for path in files) / 1e6:,.1f} MB")
    for _ in range(3):
        began = time.process_time()
        read_contents(source)
        read = time.process_time()
        with decode_threads() as parallel:
            for _ in parallel(lambda path: preprocess(read_image(path)).shape, files):
                pass
        decoded = time.process_time()
        share = (read - began) / (decoded - read)
        print(f"contents {read - began:.2f} s, decoding to 224 pixels {decoded - read:.2f} s, share {share:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
