"""What Weights & Biases may learn: its settings, and the folders of its files"""

import os
from pathlib import Path

FINISH_SECONDS = 60.0
SETTINGS: dict[str, object] = {
    "init_timeout": 20.0,
    "login_timeout": 5.0,
    "finish_timeout": FINISH_SECONDS - 5,  # so that wandb can stop in order
    "finish_timeout_raises": True,
    "silent": True,
    "quiet": True,
    "console": "off",
    "reinit": "create_new",
    "host": "",  # else wandb uploads the name of the machine
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "label_disable": True,  # else wandb reads the main script
    "sagemaker_disable": True,  # else wandb replaces our run id
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 5.0,  # the rows that a SIGKILL can lose
}


def keep_files_in(home: Path) -> None:
    """Set variables before the import: wandb has no settings for these folders, and uses the user's home folder."""
    os.environ.update(WANDB_DATA_DIR=str(home / "wandb" / "data"), WANDB_CACHE_DIR=str(home / "wandb" / "cache"))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
