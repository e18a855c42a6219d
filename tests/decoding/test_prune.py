"""A search that drops hypotheses far below the best, and steps for those alive alone."""

import math

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig, TrainingConfig
from dtmt_tf.decoding import Shortlist, beam_search, make_search
from dtmt_tf.models import DTMTConfig, TransformerConfig
from tests.cells.twin import randomise
from tests.decoding.automaton import EOS, Automaton, mixed_batch, n_best, settings

FAR = 1e6  # nats; nothing is dropped
TABLE = {  # the second word is log 4 = 1.39 below the first, and leads to the best translation
    (): [0.0, 0.0, 0.8, 0.2],
    (2,): [0.0, 0.1, 0.9, 0.0],
    (3,): [0.0, 1.0, 0.0, 0.0],
    (2, 2): [0.0, 0.01, 0.99, 0.0],
}
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


def search(language, memories, starts, max_lengths, beam, prune):
    return beam_search(
        language.step,
        language.state(memories, starts),
        tf.constant(max_lengths, tf.int32),
        settings(beam, 0.6, prune=prune),
    )


@pytest.mark.parametrize("beam, vocab", [(1, 5), (5, 4), (3, 90)])
def test_a_threshold_that_nothing_reaches_changes_nothing(beam, vocab):
    language = Automaton.random(beam, vocab)
    batch = mixed_batch(6)
    found, expected = (search(language, *batch, beam, prune) for prune in (FAR, 0.0))
    for each, truth in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, truth, rtol=1e-6)


def test_a_hypothesis_below_the_threshold_is_dropped_and_stepped_no_more():
    for prune, best, alive in ((1.5, (3, EOS), 2), (1.2, (2, EOS), 1)):
        language = Automaton.scripted(TABLE, 4)
        found = n_best(search(language, [0], [0], [3], 2, prune), 0)
        assert found[0][0] == best
        shapes = [ids for ids, *_ in language.seen]
        assert shapes[:2] == [(1, 1), (alive, 1)]


def test_the_setting_reaches_the_search():
    for prune, best in ((1.5, (3, EOS)), (1.2, (2, EOS)), (0.0, (3, EOS))):
        language = Automaton.scripted(TABLE, 4)
        decoding = DecodingConfig(beam_size=2, extra_length=1, prune=prune)
        find = make_search(lambda ids: language.state([0], [0]), language.step, decoding)  # noqa: B023
        assert n_best(find(tf.constant([[2, EOS]])), 0)[0][0] == best


def test_the_threshold_is_each_sentences_own():
    random = Automaton.random(3, 30)
    batch = mixed_batch(6)
    together = search(random, *batch, 4, 1.0)
    plain = search(random, *batch, 4, 0.0)
    assert not np.array_equal(together.ids, plain.ids)
    for row, (memory, start, length) in enumerate(zip(*batch, strict=True)):
        alone = search(random, [memory], [start], [length], 4, 1.0)
        for (ids, *values), (other, *others) in zip(
            n_best(together, row), n_best(alone, 0), strict=True
        ):
            assert ids == other and math.isclose(values[1], others[1], rel_tol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        DTMTConfig(8, 8, 2, encoder_depth=0, query_depth=0, decoder_depth=0),
        TransformerConfig(8, 12, 2, 1, 1),  # its memory and hidden states grow
    ],
)
def test_models_are_searched_so_with_prefixes_and_a_shortlist(config):
    model = randomise(config.build(90, 90, TrainingConfig()), np.random.default_rng(3), 1.5)
    sources, prefixes = tf.constant([[4, 5, 6, 1], [8, 1, 0, 0]]), tf.constant([[7], [0]])
    shortlist = Shortlist(np.full([90, 1], 80), np.arange(20, 40), 90)
    few = shortlist, model.among
    found, expected = (
        make_search(
            *(model.encode, model.decode_step),
            DecodingConfig(beam_size=3, extra_length=1, prune=prune),
            *few,
        )(sources, prefixes)
        for prune in (FAR, 0.0)
    )
    assert np.array_equal(found.ids, expected.ids) and (found.ids[0, :, 0].numpy() == 7).all()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
