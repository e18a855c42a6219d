"""How TensorFlow is started."""

import gc

from dtmt_tf.startup import kept


def test_what_is_made_while_nothing_is_collected_is_not_looked_at_again():
    assert gc.isenabled()
    with kept():
        assert not gc.isenabled()
        inside = [[] for _ in range(3)]
    outside = [[] for _ in range(3)]
    assert gc.isenabled()
    tracked = {id(each) for each in gc.get_objects()}
    assert not tracked & {id(each) for each in inside}
    assert tracked >= {id(each) for each in outside}


def test_a_process_that_collects_nothing_goes_on_so():
    gc.disable()
    try:
        with kept():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
