"""Why the Hugging Face hub does not give a file, in one sentence, and what to do"""

from vit.errors import first_line


def why_not(error: Exception, thing: str) -> str:
    """One sentence on why the Hugging Face hub, or another server, does not give a thing: a model or a data set."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return "it is gated, and the hub does not know that you accepted its terms"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no such {thing}, or it is private"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the {thing} has no such revision"
    if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub does not answer"
        return f"{offline}, and the cache does not have it"
    if isinstance(error, errors.EntryNotFoundError):
        return f"the {thing} has no such file: {first_line(error)}"
    return f"{type(error).__name__}: {first_line(error)}"


def advice(error: Exception, thing: str, otherwise: str) -> str:
    """What to do then; `otherwise` is the advice for all failures but refused terms."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"accept the terms on the {thing}'s page, then run 'hf auth login' or set HF_TOKEN"
    return otherwise


def is_final(error: Exception) -> bool:
    """Whether the hub has answered, so that another attempt would end the same."""
    from huggingface_hub import errors

    answers = errors.GatedRepoError | errors.RepositoryNotFoundError | errors.EntryNotFoundError
    no_answer = errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled  # the first is an EntryNotFoundError, too
    return isinstance(error, answers | errors.RevisionNotFoundError) and not isinstance(error, no_answer)
