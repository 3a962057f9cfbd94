"""One thread for each process, which is faster for small tensors on a shared machine; the same examples every time."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
settings.register_profile("vit", derandomize=True, deadline=None, database=None)
settings.load_profile("vit")
