"""Faults of what goes on: checkpoints, kills, processes, tracking, disks, numbers."""

from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {
    "Checkpoints": (
        Fault(
            "C1",
            "cut short, empty, text, an HTML page, a git-lfs pointer",
            "refused; names the file and its size, and guesses what it is",
            4,
        ),
        Fault(
            "C2",
            "a bit flipped on the disk",
            "refused by its checksums (all are looked at, on every load); --resume goes on from the checkpoint before "
            "it and says so",
            4,
        ),
        Fault(
            "C3",
            "a pickle that runs code, in any place of the file",
            "refused by train, evaluate and predict alike; nothing runs",
            4,
        ),
        Fault("C4", "an address in place of a file", "refused: download it first; nothing is fetched", 4),
        Fault(
            "C5",
            "values that name things to import, build or call",
            "never looked up: a network is built from checked plain values, and the rest of the file is left alone",
            4,
        ),
        Fault("C6", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 in the environment", "taken out before anything is loaded", 4),
        Fault(
            "C7",
            "a small file that asks for much memory: compressed or overlapping entries, huge views, a billion blocks",
            "refused before it is allocated",
            4,
        ),
        Fault("C8", "weights that are NaN or infinite", "refused, with the name of the first", 4),
        Fault(
            "C9",
            "weights of another architecture, patch, head or type",
            "refused, with the first five that do not fit",
            4,
        ),
        Fault(
            "C10",
            "a checkpoint of a newer or of an earlier version",
            "newer: refused, says upgrade; earlier: reads, and gives the numbers it gave then",
            4,
        ),
        Fault(
            "C11",
            "weights from elsewhere: timm's names, a `module.` prefix, bare tensors",
            "`--init_from` and `vit convert` know them by their names, take a prefix off and make a head for other "
            "classes anew; what nobody can explain is refused by name; no other command takes weights without a "
            "description",
            4,
        ),
        Fault(
            "C12",
            "--resume with options that are not the run's",
            "refused, with both values; devices, workers and the time between checkpoints may change",
            2,
        ),
        Fault(
            "C13",
            "values in a checkpoint that `weights_only` could not load again",
            "made plain before training; a description that is not plain cannot be written",
            None,
        ),
        Fault("C14", "hostile safetensors: header lengths, shapes, overlaps, names, 200 mutations", "refused", 4),
        Fault("C15", "saved in bfloat16 or by several processes, loaded by one on a CPU", "the same numbers"),
        Fault(
            "C16",
            "weights of another network under names and shapes of a plain ViT (rotary positions, norms after branches)",
            "computed by timm's own network where a name or config.json says so; else refused",
            4,
        ),
        Fault("C17", "damaged .npz, .safetensors, .pth, .ckpt and .onnx files, in bytes and in entries", "refused", 4),
    ),
    "Kill and restart": (
        Fault(
            "R1",
            "SIGKILL at any moment: start-up, training, validation, saving",
            "`--resume` ends with the weights, optimizer, metrics and result of the run that was never ended, bit for "
            "bit (CPU, float32)",
        ),
        Fault(
            "R2",
            "SIGKILL while a checkpoint is written",
            "the one before is whole; what was half written is removed at the next start",
        ),
        Fault(
            "R3",
            "SIGTERM to the main process, to one of several, to the group",
            "saved at the next step, one line that says how to go on, within 30 s",
            143,
        ),
        Fault(
            "R4", "Ctrl-C, once or twice", "once: as SIGTERM; twice: ends at once, the last checkpoint is whole", 130
        ),
        Fault(
            "R5",
            "--resume from the middle of an epoch, of a batch in parts, of a validation, after its last batch",
            "exact, as R1",
        ),
        Fault(
            "R6",
            "--resume with another number of workers or processes",
            "the same order of images; bit-equal with other workers, to 1e-6 with other processes",
        ),
        Fault(
            "R7",
            "two trainings in one run folder",
            "the second one is refused, by a lock that a killed one gives back",
            7,
        ),
        Fault(
            "R8",
            "a run folder that is moved or renamed before it goes on",
            "nothing in it depends on its place",
        ),
        Fault(
            "R9", "a study that is killed", "the same command goes on; finished cells are not run again; the same table"
        ),
        Fault(
            "R10", "a cell of a study that fails", "the others go on; it is listed with its reason in every report", 5
        ),
        Fault(
            "R11",
            "`vit predict` that is killed",
            "rows stay in NAME.partial; the same command begins anew; a file under its own name is complete",
        ),
        Fault(
            "R12",
            "a parent that is killed: loader workers, cells of a study, the second of two processes",
            "none is left within a minute",
        ),
        Fault("R13", "a power cut after a save", "the file was synced before it was renamed, the folder after"),
        Fault(
            "R14",
            "a study in the folder of another, whose finished cells its report would lack",
            "refused before anything runs, with --name; a study with more of the same goes on",
            2,
        ),
        Fault(
            "R15",
            "a clock that stands still or jumps",
            "times are counted by a clock that is never set; names stay apart",
        ),
    ),
    "Processes": (
        Fault(
            "X1",
            "a number of images that the processes do not divide, or fewer images than processes",
            "each counts once; counts are those of one process, figures equal to 1e-7",
        ),
        Fault(
            "X2",
            "metrics added up by Lightning's `sync_dist`, which floors counts",
            "not used; a test forbids the word",
        ),
        Fault(
            "X3",
            "an exception in one of several processes",
            "its own line comes first; the others end with one more",
            8,
        ),
        Fault(
            "X4", "one of several processes is killed", "the others end; nothing stays; the last checkpoint is whole", 8
        ),
        Fault(
            "X5",
            "the network between two machines goes, or one machine",
            "the rest ends: at once where the connection is reset, after 10 minutes where nothing comes",
            8,
        ),
        Fault(
            "X6",
            "processes that see other images (a folder that is not the same everywhere)",
            "refused before the first step; names the processes",
            8,
        ),
        Fault(
            "X7",
            "processes with other options, or another version of a package",
            "refused before the first step, as X6",
            8,
        ),
        Fault("X8", "started by torchrun or by Lightning", "one run folder, one voice, the same numbers"),
        Fault("X9", "work of the first process alone that waits for the others", "none; all leave with it"),
        Fault("X10", "weights that differ between processes", "compared before every validation; the training ends", 8),
        Fault("X11", "started by SLURM", "one run folder, one voice, the same numbers"),
    ),
    "Weights & Biases": (
        Fault(
            "W1", "no network, or nobody logged in", "offline within 10 s, one line with the `wandb sync` to give later"
        ),
        Fault("W2", "the server dies during a training", "training does not notice; one line at the end"),
        Fault("W3", "the server is gone, or never answers, at the end", "at most 60 s; the rows are on the disk"),
        Fault(
            "W4",
            "SIGKILL during a training",
            "metrics.csv, which reports read, has every row; a last row cut short is left out",
        ),
        Fault("W5", "a training that is resumed", "the same run, no step twice"),
        Fault("W6", "several processes", "one run; the others never import wandb"),
        Fault(
            "W7",
            "a disk that fills up under wandb's files",
            "one warning, and training goes on; where checkpoints are on the same disk, F2",
        ),
        Fault("W8", "secrets and names of the machine in what is uploaded", "left out; a key is in no file of the run"),
        Fault("W9", "wandb is missing or broken", "one line; training goes on without it"),
        Fault(
            "W10",
            "a training on private photographs, where somebody is logged in",
            "pictures, file names and weights stay here unless `--wandb_media` or `--wandb_model` asks for them",
        ),
    ),
    "Disk": (
        Fault(
            "F1",
            "a folder that cannot be written",
            "refused before the first step, by a file that is written and synced",
            7,
        ),
        Fault("F2", "a disk that fills up", "one line; the last checkpoint is whole; nothing half written stays", 7),
        Fault(
            "F3", "a disk that has too little room for what will be saved", "a warning at the start, with both numbers"
        ),
        Fault("F4", "one file that cannot be replaced", "an error that names it, not silence", 7),
        Fault(
            "F5",
            "a file system without links or locks",
            "the checkpoint before is kept by renaming; without locks nobody can be kept out, and training goes on",
        ),
        Fault("F6", "paths that are too long", "names that we make are short; an --out that is too long is refused", 7),
        Fault("F7", "what kills leave behind", "only in the run folder; removed when it goes on"),
    ),
    "Numbers": (
        Fault(
            "N1",
            "a loss, gradient or weight that is NaN or infinite",
            "ends with step, rate and images of the batch, the last good checkpoint stays; or `--optim.on_nan skip` "
            "leaves up to nine such steps in a row out",
            6,
        ),
        Fault("N2", "a validation loss that is NaN", "never the best epoch; a warning"),
        Fault("N3", "float16 whose loss scale comes to nothing", "ends after some 40 to 90 such steps", 6),
        Fault(
            "N4",
            "out of memory on a CPU",
            "one line with batch, image size, precision and what to try; the batch is never changed silently",
            7,
        ),
        Fault("N5", "the same command twice", "bit-equal weights on a CPU"),
        Fault(
            "N6", "labels out of range", "cannot be: numbers are ours, made from names; an unknown name is refused", 3
        ),
        Fault("N7", "images of one color", "no NaN"),
        Fault("N8", "out of memory on a GPU", "as N4", 7),
    ),
}
