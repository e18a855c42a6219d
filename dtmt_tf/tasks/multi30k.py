"""Multi30k: image captions (Elliott et al., 2016), raw or lower-cased and tokenised."""

from collections.abc import Collection

from dtmt_tf.config import (
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    RemoteFile,
    Task,
    TrainingConfig,
)
from dtmt_tf.tasks.language_pair import language_pair

REPOSITORY = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
SPLITS = ("train", "val", "test_2016_flickr")
LANGUAGES = {"cs": "Czech", "de": "German", "fr": "French"}

# by folder below --data-dir: SHA-256 of the unpacked text
SHA256 = {
    "multi30k": {
        "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
        "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
        "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        "train.cs": "2be68b38c8d586ff4f54eb13cc6e1baaaa053695b3f070d3038303a47f2268da",
        "val.cs": "d53827e469b0a1ca8d57e9e26b2b64c4bc4b33f5479c7b03ae87ae5c882c3e33",
        "test_2016_flickr.cs": "45adb85f688de8407fddcbe1b36dca15d12aab868149b337e2576f2d6d2ff8d8",
    },
    "multi30k_tok": {
        "train.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
        "val.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
        "test_2016_flickr.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
        "train.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
        "val.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
        "test_2016_flickr.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
        "train.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
        "val.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
        "test_2016_flickr.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
    },
}

MODEL = "dtmt_tied"
DATA = DataConfig(source_vocab_size=6000, max_length=100, max_tokens_per_batch=1280)
TRAINING = TrainingConfig(  # 12 epochs, read twice; see EXPERIMENTS.md for what else was tried
    max_steps=5_000,
    label_smoothing=0.2,
    embedding_dropout_rate=0.2,
    output_dropout_rate=0.3,
    candidate_dropout_rate=0.1,
    r_drop_alpha=0.5,
    learning_rate=3e-4,
    schedule_replicas=8,
    schedule_warmup=31,
    schedule_decay_start=20_000,
    schedule_decay_end=60_000,
    ema_decay=0.999,
    validation_steps=1_000,
    patience=0,
    average="none",
    precision="bfloat16",
)

DECODING = DecodingConfig(
    length_penalty=1.0,  # on English-German val above 0.6 and 1.4
    extra_length=15,  # nothing on val is longer; see ARCHITECTURE.md
)


def remote_files(folder: str, languages: Collection[str]) -> tuple[RemoteFile, ...]:
    """Returns where the files of some languages come from; `multi30k_tok` is the tokenised form."""
    form = "tok/{}.lc.norm.tok.{}" if folder == "multi30k_tok" else "raw/{}.{}.gz"
    return tuple(
        RemoteFile(
            f"{folder}/{split}.{language}",
            f"{REPOSITORY}/{form.format(split, language)}",
            SHA256[folder][f"{split}.{language}"],
        )
        for language in languages
        for split in SPLITS
    )


def _task(target: str, folder: str = "multi30k") -> Task:
    tokenized = folder == "multi30k_tok"
    form = "lower-cased, tokenised, as most papers score" if tokenized else "cased, detokenised"
    train, validation, test = ([f"{folder}/{split}"] for split in SPLITS)
    return Task(
        name=f"multi30k_en{target}" + ("_tok" if tokenized else ""),
        description=f"English-{LANGUAGES[target]} image captions; {form}",
        model=MODEL,
        data=language_pair(DATA, "en", target, train=train, validation=validation, test=test),
        training=TRAINING,
        decoding=DECODING,
        evaluation=EvaluationConfig(tokenize="none" if tokenized else "auto"),
        files=remote_files(folder, ("en", target)),
    )


MULTI30K = (
    _task("de"),
    _task("de", "multi30k_tok"),
    _task("fr"),
    _task("fr", "multi30k_tok"),
    _task("cs"),
)
