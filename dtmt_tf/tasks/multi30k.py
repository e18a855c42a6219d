"""Multi30k: image captions (Elliott et al., 2016), raw or lower-cased and tokenised."""

from dtmt_tf.config import (
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    RemoteFile,
    Task,
    TrainingConfig,
)

REPOSITORY = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
SPLITS = ("train", "val", "test_2016_flickr")

# SHA-256 of the unpacked text
RAW = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
}
TOKENIZED = {
    "train.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "val.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "test_2016_flickr.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
}

TRAINING = TrainingConfig(
    max_steps=3300,
    embedding_dropout_rate=0.3,
    output_dropout_rate=0.4,
    candidate_dropout_rate=0.25,
    learning_rate=1.9e-4,
    schedule_replicas=8,
    schedule_warmup=62,
    schedule_decay_start=13_600,
    schedule_decay_end=26_400,
    validation_steps=150,
    patience=10,
    average="last",
    average_count=5,
)

DECODING = DecodingConfig(length_penalty=1.0)  # of 0.6, 1.0 and 1.4 the best on val


def _file(folder: str, name: str, sha256: str) -> RemoteFile:
    if folder == "multi30k":
        return RemoteFile(f"{folder}/{name}", f"{REPOSITORY}/raw/{name}.gz", sha256)
    split, _, language = name.rpartition(".")
    return RemoteFile(
        f"{folder}/{name}", f"{REPOSITORY}/tok/{split}.lc.norm.tok.{language}", sha256
    )


def _data(folder: str) -> DataConfig:
    train, validation, test = (f"{folder}/{split}" for split in SPLITS)
    return DataConfig(
        source_language="en",
        target_language="de",
        train_source=f"{train}.en",
        train_target=f"{train}.de",
        validation_source=f"{validation}.en",
        validation_target=f"{validation}.de",
        test_source=f"{test}.en",
        test_target=f"{test}.de",
        source_vocab_size=6000,
        max_length=100,
        max_tokens_per_batch=2560,
    )


MULTI30K_ENDE = Task(
    name="multi30k_ende",
    description="English-German image captions; cased, detokenised",
    model="dtmt_small",
    data=_data("multi30k"),
    training=TRAINING,
    decoding=DECODING,
    files=tuple(_file("multi30k", name, sha256) for name, sha256 in RAW.items()),
)

MULTI30K_ENDE_TOK = Task(
    name="multi30k_ende_tok",
    description="The same lower-cased, normalised and tokenised, as most papers score it",
    model="dtmt_small",
    data=_data("multi30k_tok"),
    training=TRAINING,
    decoding=DECODING,
    evaluation=EvaluationConfig(tokenize="none"),
    files=tuple(_file("multi30k_tok", name, sha256) for name, sha256 in TOKENIZED.items()),
)
