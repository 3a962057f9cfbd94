"""What goes wrong in a training, as errors that say how to go on"""

from collections.abc import Iterator
from contextlib import contextmanager

from vit.checkpoints.run import RunDirectory
from vit.errors import DataError, DivergedError, ProcessesError, ResourceError, StoppedError
from vit.training.planning.plan import Plan
from vit.training.signals import Stop


def how_to_resume(run: RunDirectory) -> str:
    """The command that continues a run, for the end of an error."""
    return f"to go on: {run.how_to_resume}"


@contextmanager
def explained(plan: Plan, run: RunDirectory) -> Iterator[None]:
    """While entered: a failure says what was saved, and how to go on.

    Raises:
        DivergedError: a loss, gradient or weight is not finite.
        DataError: the images cannot be read any more.
        ResourceError: torch.compile fails.
        ProcessesError: another process of the same training has ended, or differs from this one.
        StoppedError: a signal ended the training.
    """
    try:
        yield
    except Stop as stop:
        fix = how_to_resume(run) if run.last_path.is_file() else "start it again"
        raise StoppedError(128 + stop.number, stop.words, fix) from stop
    except DivergedError as error:
        if not run.last_path.is_file():
            raise
        kept = f"{run.last_path} holds the last good weights (--init_from starts from them)"
        raise DivergedError(error.problem, f"{error.fix}; {kept}") from error
    except (DataError, ProcessesError) as error:
        fix = f"{error.fix}; {how_to_resume(run)}" if run.last_path.is_file() else error.fix
        raise type(error)(error.problem, fix) from error
    except RuntimeError as error:
        if plan.recipe.trainer.compile and _is_of_compiler(error):
            raise ResourceError(
                f"--trainer.compile true: torch.compile cannot compile {plan.spec.name} on this machine: "
                f"{' '.join(str(error).split())[:200]}",
                "leave --trainer.compile out, or install a C++ compiler (on a GPU also Triton)",
            ) from error
        raise


def _is_of_compiler(error: Exception) -> bool:
    from torch._dynamo.exc import TorchDynamoException  # loaded by then, and slow to load

    return isinstance(error, TorchDynamoException)
