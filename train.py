"""`vit train`, for people and for torchrun: torchrun --nproc-per-node 2 train.py digits."""

import sys

from vit.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
