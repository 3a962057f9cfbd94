"""Faults of inputs: data, images, command line, exports and reports."""

from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {
    "Data": (
        Fault("D1", "DATA does not exist, or is a file that is not a table",
              "refused with its path and the accepted layouts; a word without a slash or an ending (code 2) "
              "with names of data sets instead of layouts", 3),
        Fault("D2", "images lie directly in DATA, without class folders",
              "refused with their number and the accepted layouts", 3),
        Fault("D3", "DATA is one folder too high: its folders hold the classes, or train/ and val/, or are splits, "
              "folds or variants with the same class folders",
              "splits such as train_set/ or seg_test/seg_test/ are read as such, with a note; all else is refused, and "
              "the error names the folder to give", 3),
        Fault("D4", "a class folder without an image",
              "refused, with the content of the folder; `--data.allow_empty true` keeps the class, and the plan "
              "says so; `vit evaluate` measures the other classes", 3),
        Fault("D5", "hidden files and folders, Thumbs.db, `._x.jpg`, .ipynb_checkpoints, __MACOSX",
              "skipped, and counted in the output of `vit train` and `vit data check`"),
        Fault("D6", "validation or test has other classes than train",
              "classes and their numbers come from train alone; a class that train lacks is refused with both "
              "lists; a class that is missing elsewhere is noted", 3),
        Fault("D7", "a model is measured on data with other classes",
              "classes and labels are matched by name, in any order and Unicode form; unknown ones are refused and "
              "named, and so are images with one class where the model gives several labels, and the reverse; a label "
              "that lists never name is absent, and one without a column unknown", 3),
        Fault("D8", "class names that differ only in case, spaces, Unicode form or number format; nan and None",
              "spaces around a name and its Unicode form do not count; else two classes, and a note with both and "
              "their images; `vit data check --strict` ends with 5"),
        Fault("D9", "class names that are numbers",
              "sorted as text (1, 10, 2); the order is in classes.json and in every checkpoint"),
        Fault("D10", "one class, or too few images for a validation split",
              "refused; `vit evaluate` measures images of one class, and test images alone", 3),
        Fault("D11", "files whose ending is not that of an image (.dng, .txt), or files without an ending",
              "skipped and counted by ending, but images without an ending are known by their first bytes; refused "
              "with these counts if the folder has nothing else; the note says how to read HEIC photographs, and how "
              "to convert raw ones", 3),
        Fault("D12", "links that form a loop, or lead back into DATA",
              "each real folder is read once; the others are counted"),
        Fault("D13", "a broken link, a file without permission, or a file that vanishes after the listing",
              "broken links are counted when DATA is listed; in training the next good image replaces the file; a "
              "validation or test file that is not an image is refused before the first step (3); a file that "
              "fails while it is decoded is left out of the measurement; the output and result.json count each", 5),
        Fault("D14", "a FIFO, socket, device or folder called x.jpg",
              "skipped and counted; the program never waits for it"),
        Fault("D15", "names with spaces, line breaks, quotes, dashes, emoji, bytes that are not UTF-8, 255 bytes",
              "used byte for byte; shown without control characters on the terminal; tables read back unchanged"),
        Fault("D16", "the same picture in train and test",
              "`vit data check` finds the pair by its pixels and names both files", 5),
        Fault("D17", "100,000 files",
              "listed in seconds; training and prediction keep little more than the names in memory"),
        Fault("D18", "files appear, vanish, or change class or content between a training and its --resume",
              "refused, with their number; `vit evaluate RUN` uses the files in splits.csv, and refuses changed "
              "ones", 3),
        Fault("D19", "file systems list files in different orders",
              "the same split everywhere, because it depends on sorted names and the seed"),
        Fault("D20", "DATA is an archive", "refused; archives are never unpacked", 3),
        Fault("D21", "an image fails inside a loading process", "the message names the file", 5),
        Fault("D44", "too few file descriptors for loading processes",
              "refused before they start, with the limit to raise; "
              "where a thread of a process fails, the process ends", 7),
        Fault("D22", "a loading process is killed, or /dev/shm is too small for its batches",
              "one line with the reason and the fix (`--data.num_workers 0`); the last checkpoint is kept", 7),
        Fault("D23", "a batch is larger than the training set",
              "refused with both numbers; no run folder is created", 3),
        Fault("D24", "a table with a missing file, a repeated row, another encoding, an empty cell, a misspelled split"
              ", a missing quotation mark, more cells in a row than columns",
              "refused with the table and the line; other usual column names and separators are accepted and "
              "reported", 3),
        Fault("D25", "runs, studies, evaluations and explanations beside the classes, or in a folder called like a "
              "data set",
              "skipped and counted; if a folder holds nothing else, the data set of its name is used; any other "
              "folder of that name is refused", 3),
        Fault("D26", "a model is measured on images that it was trained on, also in a copy of their folder",
              "left out by content, and counted; refused if no other image remains; `--include_seen` scores all", 3),
        Fault("D27", "a class without training images is to be drawn, weighted or adjusted for by its size",
              "refused, with the class and the option to leave out", 3),
        Fault("D28", "images of one group, such as a patient, in train and test",
              "splits that vit cuts keep groups whole; given splits that share a group are a warning in the plan, and "
              "an error of `vit data check`", 5),
        Fault("D29", "a group in some rows only, one group for everything, a pattern that finds no group in a path",
              "refused, with the line, the number of groups or the path", 3),
        Fault("D30", "a class whose images are all in one group, or a class with one image",
              "its images stay in train; folds, which test every image, refuse it", 3),
        Fault("D31", "a table of several labels with other values than 0 and 1, empty names, a label that only test "
              "images have, or a label that all or no training images have",
              "refused, with the line or the label; -1 is read as absent only where no other cell can mean it", 3),
        Fault("D32", "many test images of one group, such as a patient",
              "intervals, tests and promises take groups, not images, for independent"),
        Fault("D33", "one test image for several seeds, in vit study, vit probe or vit compare",
              "refused before anything is trained; runs of a study that share one readable test image are refused (3)",
              2),
        Fault("D34", "the same file several times in data that are divided into folds",
              "copies are in the fold and the split of the same image; they never test a network that learned one"),
        Fault("D35", "a column that is given by name and that a CSV lacks, or for DATA without columns (folders, "
              "shards, data sets by name); a column that is read and stands in a CSV twice",
              "refused with the option and the nearest column; a CSV that has another column like labels notes it", 2),
        Fault("D36", "the same file in the training and the test images, given so or cut so",
              "a warning with the number before the first step, in result.json, on the page, in the model card, and "
              "from `vit evaluate RUN`"),
        Fault("D37", "groups in a table that differ only in spaces, case or Unicode form",
              "spaces at the ends do not count; other pairs are a warning of the plan and of `vit data check`"),
        Fault("D38", "test images that were replaced under their names between two runs that vit compare takes",
              "refused with their number and the first name", 3),
        Fault("D39", "training images that were added or replaced between two runs of one recipe",
              "`vit compare` does not take the runs together as seeds, and tells the training images as a difference"),
        Fault("D40", "images that were replaced after a training whose page is written again",
              "no picture stands beside the old prediction; page and terminal count them"),
        Fault("D41", "a table with splits in a column of another name (Usage, phase, is_valid), or with columns "
              "that are not read",
              "words of splits are read, with a note, or refused where they disagree or are not clear; each other "
              "column that is not read is listed once", 3),
        Fault("D42", "a table of Kaggle or Excel: image_id, names without an ending, Windows paths, UTF-16, `sep=;`",
              "read, with a note on the names that were completed; names without their folder are found in those "
              "beside the table; a missing file is refused", 3),
        Fault("D43", "a disk, a network file system or a limit of the machine fails while an image is read",
              "the image is read again after pauses; what lasts ends the command, in training, evaluation and "
              "prediction: no other image stands in, and no test becomes smaller", 7),
        Fault("D61", "a long tail of rare classes, of which the cut takes one image or none",
              "the test images have the proportions of all images; half of a class of two or more stays in train"),
        Fault("D62", "classes without test images: too few images, one group, or a rare label of several",
              "their number stands in the plan, beside the accuracy on the terminal, in result.json and on the page"),
        Fault("D63", "groups of unequal size that are cut again with another seed",
              "another cut, wherever one is about as even; errors do not advise a seed that changes nothing"),
        Fault("D64", "near-duplicates, such as bursts or frames of a video, not declared as groups",
              "no cut and no fold divides them, intervals count them as one, and one line says so; given splits that "
              "share some are a warning"),
    ),
    "Images": (
        Fault("I1", "truncated, empty, HTML, a git-lfs pointer, random bytes",
              "one error with path and reason; `vit predict` writes a row with the status, and ends with 5 with "
              "`--on_bad fail` or if no file can be read", 5),
        Fault("I2", "a PNG with any byte damaged",
              "one error; torchvision's decoder is not used, because it ends the process"),
        Fault("I3", "a header that announces more than 64 megapixels", "refused by the header, within 30 MB"),
        Fault("I4", "sides of more than 50 to 1", "refused by the header, in both directions"),
        Fault("I5", "text and profiles that unpack to 200 MB, JPEGs of thousands of scans, GIFs of thousands of frames",
              "at most 100 MB more memory; more than 100 scans are refused; only the first frame is read"),
        Fault("I6", "EXIF orientation 1 to 8", "upright, in training, evaluation and prediction alike"),
        Fault("I7", "alpha, transparent palette entries, gray with alpha, 1 bit", "drawn on white"),
        Fault("I8", "16-bit gray, floating point, CMYK, YCCK, 12-bit JPEG",
              "scaled to 8 bits where the meaning is clear, otherwise one error; never clipped silently"),
        Fault("I9", "animated files and files with several pages", "the first frame"),
        Fault("I10", "EPS, SVG or PDF called .jpg", "not an image; no other program is started"),
        Fault("I11", "1x1 pixel, zero pixels, 64 megapixels", "read; one error; read within 700 MB"),
        Fault("I12", "training, evaluation and prediction see an image differently",
              "impossible: one function decodes, and one value in the checkpoint defines the preprocessing"),
        Fault("I13", "mutated files of every format", "an image or one error; no crash, no hang, no memory growth"),
        Fault("I14", "another number of loading processes", "the same bits"),
        Fault("I15", "a damaged HEIC or AVIF photograph, or a HEIC without the extra `heif`",
              "one error, which names the package to install; a folder is read without its HEIC files, with a note"),
        Fault("I16", "images of more than 8 bits whose values lie in a small range, or are not numbers",
              "a window of values that training measures, shows and keeps in the checkpoint; an empty window is "
              "refused; 16 bits for each color of a PNG, or beside transparency, are one error with a window; so are "
              "values that would be almost black for a model without a window"),
        Fault("I17", "a TIFF with more channels than the model sees, or fewer",
              "one reason with both numbers; no band is left out, and none is made up; channels are bands, the axis C "
              "of OME-TIFF and ImageJ, or as many pages as the model has channels"),
        Fault("I18", "channels of more than 8 bits with different ranges",
              "a window for each channel, measured in training, shown in the plan and kept in the checkpoint"),
        Fault("I19", "a DICOM whose values need rescale, a window or inversion",
              "values of the modality through the model's window, else the file's own, also of enhanced files; "
              "MONOCHROME1 is inverted"),
        Fault("I20", "a damaged or unusual DICOM of a person",
              "one reason, without any value of the file"),
        Fault("I21", "a TIFF of many channels or a DICOM without the extra that reads it",
              "the reason names the extra; a folder is read without its DICOM files, with a note"),
        Fault("I22", "a TIFF or DICOM that is hostile: many pixels, many channels, a bomb, changed bytes",
              "refused by its header, or one reason for a damaged file"),
        Fault("I23", "images with another number of channels than the model's",
              "their rows say so; training, evaluation, prediction, explanation and export keep 1 to 16 channels"),
        Fault("I24", "channels beside a mean, a RandAugment or a network option of other channels",
              "refused before an image is read", 2),
        Fault("I25", "a data set with images of other channels, or of more than 8 bits beside 8",
              "`vit data check` names the images and what to do"),
        Fault("I26", "a JPEG with a film behind it (a motion photo), or with a picture in its metadata",
              "read as the photograph; scans are counted up to its end, so that bytes behind it are not scans"),
        Fault("I27", "a photograph with an ICC profile (Adobe RGB, Display P3, ProPhoto, CMYK, gray), or a damaged one",
              "its colors become sRGB, as viewers show them; older checkpoints keep the numbers; pictures without a "
              "profile, or with that of sRGB, keep every bit; a damaged profile is ignored"),
        Fault("I28", "a picture whose pixels are all transparent",
              "a BMP is opaque, as viewers show it; other formats have a reason; never a white picture"),
    ),
    "Configs and command line": (
        Fault("K1", "a misspelled command, option, key or value; a path that does not exist",
              "refused before torch is imported, with the nearest name, ours before timm's", 2),
        Fault("K2", "a value out of its range", "refused before any data are read, with key, value and range", 2),
        Fault("K3", "the same YAML key twice", "refused with the key and both lines", 2),
        Fault("K4", "`1e-3`, yes/no, numbers as text in YAML",
              "the output of --print_config and config.yaml read back as the same recipe"),
        Fault("K5", "Python tags or class names in a config", "refused; a config cannot name anything to import", 2),
        Fault("K6", "the same command twice; --resume with other options",
              "a new run folder beside the unchanged old one; refused with the keys that differ", 2),
        Fault("K7", "a GPU that is not there, 0 devices, float16 on a CPU",
              "refused, with the value to give instead", 2),
        Fault("K8", "relative paths, `~`, spaces; another working folder later",
              "resolved once: a run finds its images and weights from any folder; $VARIABLES are left to the shell"),
        Fault("K9", "the output exists already", "never overwritten: refused, or the next free number is used", 2),
        Fault("S12", "the config.yaml of a run is empty, damaged, or holds no recipe",
              "refused with its path; vit compare --page says so, and has no pictures", 3),
        Fault("K10", "the reader of a pipe exits (`vit ... | head`)", "the command ends quietly", 141),
        Fault("K11", "--lora without weights, with --freeze backbone, without peft, for a CNN, or of too high a rank",
              "refused before any data are read, with the option to remove or the package to install", 2),
        Fault("K12", "--time that is not a time, with epochs or steps, on several processes, or too short; "
              "--batch_size auto on several processes",
              "refused with the option to remove; a time that is too short with a time that is enough", 2),
        Fault("K14", "class weights for an unknown class; two corrections for the class sizes; --data.sampling with "
              "--freeze backbone", "refused before the first step, with the classes or options to choose from", 2),
        Fault("K24", "--freeze backbone or batch_stats without weights to start from",
              "refused before the first step, with --init_from and the value that needs no weights", 2),
        Fault("K15", "the folder of another cross-validation; folds that are not finished",
              "never overwritten: refused with --name; finished by the same command", 2),
        Fault("K16", "--labels of a folder without predictions, of other images, or without a class that a label has",
              "refused, with the folder and the command that makes one; images that were replaced since are left out "
              "and counted", 2),
        Fault("K17", "a fold that is not I/N, a pattern of groups that is not a regular expression or has no group",
              "refused before torch is imported, with a valid example", 2),
        Fault("K18", "options of one class for an image on several labels, and the reverse",
              "refused, with the options that go with the data", 2),
        Fault("K19", "vit probe: two backbones of one name, DATA that is not there, images with several labels",
              "refused before a feature is computed; DATA that is not there ends with 3", 2),
        Fault("K20", "vit study, crossval, probe, predict --parts: options of a cluster without a cluster, an unknown "
              "one, one that Ray does not have, or no SLURM on this machine",
              "refused before an image is read, with the nearest name", 2),
        Fault("K21", "vit study, crossval, probe, predict --parts: --executor slurm without submitit, --executor ray "
              "without Ray",
              "refused before an image is read, with the command that installs it", 2),
        Fault("K22", "vit study, crossval, probe, predict --parts: SLURM refuses the tasks",
              "nothing is computed; SLURM's words", 2),
        Fault("K25", "vit study: an option that it decides itself (seed, number of images, length), values that make "
              "one training or other test images",
              "refused before anything runs; a budget of recipe frees the length", 2),
        Fault("K26", "a recipe that is not a text, YAML or a mapping; a section with a "
              "value, an option without its section",
              "refused with the file, the key and where it belongs; a section with nothing below it has no values", 2),
        Fault("K27", "null for an option that must have a value, also as None in Python",
              "refused with the option, and a name or number asked for", 2),
        Fault("K28", "several devices for a study or a cross-validation, or in Python",
              "a cell takes one device, whatever its recipe says; vit.train refuses them before a run folder is made, "
              "unless torchrun has started the program", 2),
        Fault("K40", "photographs whose published weights are not available, or do not fit the options of the network",
              "refused within seconds, with the ways on; --init random asks for random weights", 2),
        Fault("K41", "pretrained weights for a data set with a recipe for random weights",
              "the recipe `finetune`, as for the same images in a folder; the data set's recipe gives its cut alone"),
        Fault("K42", "layer decay in a network of 5 to 150 layers",
              "the lowest layer has the rate of a ViT's with 12 blocks, and the plan shows it"),
        Fault("S11", "vit --print_completion without a shell, for one that it does not know, or without shtab",
              "refused with the nearest shell, all shells, or the extra to install", 2),
    ),
    "Learning without labels": (
        Fault("L1", "a folder without images for vit pretrain", "refused, with what lies in it instead", 3),
        Fault("L2", "a folder of --data.unlabeled that does not exist", "refused", 3),
        Fault("L3", "--data.unlabeled beside a data set whose images are not files", "refused", 2),
        Fault("L4", "a folder with train/ and test/ whose images lie in no class folders",
              "refused: train/ is to be DATA, so that test images are never learned from", 3),
        Fault("L5", "vit predict, evaluate, explain, export or compare of a pretraining",
              "refused: its network has no classes; the error names the training that starts from it", 2),
        Fault("L6", "vit pretrain --init_from weights of another --network", "refused before the first step", 4),
        Fault("L7", "fewer images than a batch has", "refused, with a batch size that fits", 3),
        Fault("L8", "an option that only a training with labels uses, such as --optim.label_smoothing or --lora",
              "refused", 2),
        Fault("L9", "vit train --resume of a pretraining, and the other way round",
              "refused, with the command that resumes the run", 2),
        Fault("L10", "vit pretrain --method mae with a network that is not a ViT of our own",
              "refused before a run folder is made, with --method diet", 2),
        Fault("L11", "vit pretrain --method mae with a ViT that mixes patches or rotates them by their places",
              "refused before a run folder is made, with the option that does not fit", 2),
        Fault("L12", "vit pretrain --method mae with an image of too few patches to hide three quarters",
              "refused, with the number of patches", 2),
    ),
    "Shards and far images": (
        Fault("S1", "images with odd names, or files that are not images, on their way into shards or an index",
              "each gets a key of its own; what is not an image is left out, named, and listed in left_out.csv"),
        Fault("S2", "an index with a wrong, repeated or hostile row (`../`, another host, negative offsets), or "
              "another parquet file", "refused with the index and the row; nothing outside its folder is read", 3),
        Fault("S3", "a shard that is missing, cut, or changed since it was indexed",
              "missing or cut: refused before the first image; changed: the command ends at the first image whose "
              "sha256 is another, because the data set is not the one that the index lists; `vit data check` lists "
              "such images", 3),
        Fault("S4", "tar files that are cut, compressed, or have images without a label or with a shared key",
              "refused with the file and the image", 3),
        Fault("S5", "a server that is slow, fails for a moment, cuts the connection or sends too few or too many bytes",
              "asked again up to five times with growing pauses; then an error, and `--resume` continues; no partial "
              "answer is kept or decoded", 3),
        Fault("S6", "an address that is not there (404), refused (401, 403), unreachable, or ends too early (416)",
              "refused at once with the address and the reason", 3),
        Fault("S7", "a range whose bytes are other ones, a far shard that changed since it was indexed, or a damaged "
              "file of the cache",
              "the sha256 of every image is checked; the bytes are fetched once more past the cache, and then refused",
              3),
        Fault("S8", "a table of addresses of which some are not there, or which also lists files",
              "an address that is not there counts as an unreadable file (D13); one that is refused ends the command; "
              "files and addresses in one table are refused", 3),
        Fault("S9", "s3:// or gs:// without the library for it, an address of another kind, or of a parquet table",
              "refused with the extra to install, the kinds that are read, or how to download the table", 2),
        Fault("S10", "OUT of `vit data pack` or the index of `vit data index` exists", "refused; nothing is "
              "overwritten", 2),
        Fault("S15", "an image at an address that has no end, or is larger than its server says",
              "given up at 512 MiB while it comes; counts as an unreadable file (D13)"),
        Fault("S13", "tar files of which only some name a split, or with images beside the folders of their splits",
              "refused with the tar files or images of an unknown split; they never become training images", 3),
        Fault("S14", "hidden folders, such as .thumbnails/, and links inside a tar file",
              "hidden and system files are skipped and counted; an image that is a link is left out and named"),
    ),
    "Parquet tables, the Hugging Face hub and object stores": (
        Fault("L20", "a folder of parquet files that lacks a numbered file, has a split under two names, no training "
              "images, or only the part that the hub has converted", "refused with the missing or second file", 3),
        Fault("L21", "a parquet table with no column, or several, that may hold images or labels; or with several "
              "labels for an image, as cat|indoors in a column `labels`",
              "refused with the columns, their types and the option that chooses; a column that does not exist ends "
              "with 2", 3),
        Fault("L22", "damaged or repeated class names in a table, or files of one data set that differ in columns or "
              "class names", "refused with the file", 3),
        Fault("L23", "a row without an image, with a path instead of bytes, or with bytes that are not an image",
              "counts as an unreadable file (D13); the path is never followed"),
        Fault("L24", "a row without a label, or with a number that has no class name",
              "refused with the file and the row; a test or validation split without any label is left out, with a "
              "note", 3),
        Fault("L25", "a parquet file that is cut, damaged, or changes while it is read",
              "refused with the file; images of the old and the new file are never mixed", 3),
        Fault("L26", "hf:NAME that is gated, private, missing, or without parquet files; a config that is missing or "
              "must be chosen; a card that does not fit its files",
              "refused with the terms to accept, or the configs to choose from; 7 where the hub refuses, 3 where the "
              "files cannot be used, 2 for names and configs", 7),
        Fault("L27", "hf:NAME without a network, with a hub that fails, or with a download that was cut",
              "the cache serves, with a note, if it has all files of the revision; else refused with the file that is "
              "missing", 7),
        Fault("L28", "an object store without credentials, with keys that it does not know, or without the bucket or "
              "object", "refused at once with the address and the reason", 3),
        Fault("L29", "objects that change or are cut after they were listed",
              "refused with the object: shards by the sha256 of each image, tables by size and ETag", 3),
    ),
    "Exports": (
        Fault("E1", "an exported file gives other answers than its checkpoint",
              "the file is loaded and compared before success is reported; beyond 1e-4, or with another label, the "
              "file is removed", 4),
        Fault("E2", "an .onnx file is moved without its data file",
              "all weights are in one file; a network of 2 GiB or more is refused"),
        Fault("E3", "exported safetensors that differ, lack classes, or can be read only by their owner",
              "bit-equal; classes and preprocessing in the metadata; file mode by umask"),
        Fault("E4", "an exported ONNX network gets another size or type",
              "onnxruntime's error names the expected input, and so do the metadata"),
        Fault("E5", "a damaged .onnx or .xml file, an .xml file without its .bin, or an untrusted file",
              "refused with the file and the command that writes such files; nothing in it is run", 4),
        Fault("E6", "openvino or onnxruntime is not installed, computes on no GPU, or cannot compute the network",
              "refused with the package to install or the option to change", 2),
    ),
    "Reports and rows": (
        Fault("H1", "`<script>`, `\"><img onerror=...>` or `javascript:` in the name of a file or class",
              "shown as text on every page; pages load nothing from elsewhere, and run no script but vit's own (CSP)"),
        Fault("H2", "names that a spreadsheet runs as a formula", "a quote precedes them in a CSV"),
        Fault("H3", "escape sequences and line breaks in names", "shown as text on the terminal"),
        Fault("H4", "`../../etc` as the name of a class or data set", "a harmless part of a path, below --out"),
        Fault("H5", "pictures with hidden content in a page of thumbnails",
              "encoded again from decoded pixels; no other part of the file is in the page"),
    ),
}  # fmt: skip
