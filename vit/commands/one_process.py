"""A training that Python starts: in one process, because a second one would run the user's whole program again"""

from dataclasses import replace

from vit.commands.train_options import TrainOptions
from vit.console import Reporter
from vit.errors import UsageError
from vit.launch import is_launched

_FIX = "use the command line, which starts a process for each device, or start your program with torchrun"


def in_one_process(options: TrainOptions) -> TrainOptions:
    """The options with one device where the machine has several, or where a run may have begun on several.

    Lightning starts each further process with the words of this one. Of a program that calls `vit.train` it would
    run every line again; it cannot run a notebook or `python -c` again. torchrun starts all processes alike, so that
    it takes as many devices as it has started.

    Raises:
        UsageError: several devices are asked for, and no launcher has started this process.
    """
    if is_launched() or options.print_config:
        return options
    recipe = options.given.recipe()
    for name, count in (("devices", recipe.trainer.devices), ("num_nodes", recipe.trainer.num_nodes)):
        if count not in ("auto", 1):
            raise UsageError(f"trainer.{name} {count} in Python, which trains in one process", _FIX)

    from vit.training.distributed.devices import device_and_world_size

    _, num_devices = device_and_world_size(recipe)
    if num_devices == 1 and options.resume is None:
        return options
    if num_devices > 1:
        Reporter().notice(f"1 of {num_devices} devices trains: {_FIX}")
    given = options.given.with_option("trainer.devices", 1)
    return replace(options, given=given if options.resume is None else given.with_option("trainer.num_nodes", 1))
