"""Memory that the operating system does not give: a limit is set on the training's own process."""

import pytest

from tests.processes import finish, linux_only, start

# The kernel answers malloc: it gives 48 MB more than there are when the first step begins, whose activations need more.
LIMITED = """
import resource
from vit.training.classifier import Classifier
step = Classifier.training_step
def limited(classifier, batch, place):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 48 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return step(classifier, batch, place)
Classifier.training_step = limited
"""


@linux_only
@pytest.mark.faults("N4")
def test_memory_that_is_refused_ends_the_training_with_what_to_try(tmp_path):
    options = ("digits", "--network", "vit_nano_patch2_8", "--epochs", 9, "--batch_size", 1024, "--precision",
               "32-true", "--wandb", "off", "--out", tmp_path / "runs")  # fmt: skip
    process = start(tmp_path, "train", *options, script=LIMITED)
    _, said = finish(tmp_path, process, 300)
    (line,) = [line for line in said.splitlines() if line.startswith("vit: error[")]
    assert process.returncode == 7 and "out of memory with 1024 images of 8 pixels in 32-true, 1 parts" in line, said
    assert "--optim.accumulate 2" in line and "Traceback" not in said
