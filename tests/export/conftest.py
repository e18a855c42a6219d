"""A sound model, and edits of it, for the tests of the servability check."""

import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

from dtmt_tf.export.servable import check_saved_model

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("pieces") / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20),
        model_prefix=str(prefix),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    content = prefix.with_suffix(".model").read_bytes()
    return tensorflow_text.SentencepieceTokenizer(content, out_type=tf.int32)


@pytest.fixture(scope="module")
def sound_dir(tmp_path_factory, tokenizer):
    """A model with what a translator has: tokenizer, loop, branch, variable, two outputs."""
    scale = tf.Variable(2.0)

    def serve(text):
        pieces = tokenizer.tokenize(text)
        counts = tf.cast(pieces.row_lengths(), tf.float32)
        for _ in tf.range(3):
            counts = counts * scale
        if tf.reduce_any(counts > 100.0):
            counts = tf.minimum(counts, 100.0)
        with tf.device("/CPU:0"):
            counts = tf.identity(counts)
        translation = tf.reshape(tokenizer.detokenize(pieces), [-1])
        return {"translation": translation, "score": tf.nn.relu(counts)}

    module = tf.Module()
    module.serve = tf.function(serve, input_signature=[tf.TensorSpec([None], tf.string, "text")])
    module.parts = [tokenizer, scale]
    path = tmp_path_factory.mktemp("sound")
    tf.saved_model.save(module, str(path), signatures=module.serve)
    return path


@pytest.fixture
def edit(sound_dir, tmp_path):
    """Returns a function that writes the sound model with one edit and gives the problems."""

    def write_and_check(change):
        message = saved_model_pb2.SavedModel.FromString((sound_dir / "saved_model.pb").read_bytes())
        change(message.meta_graphs[0])
        (tmp_path / "saved_model.pb").write_bytes(message.SerializeToString())
        return check_saved_model(tmp_path)

    return write_and_check
