"""How TensorFlow is started."""

import subprocess
import sys

# in a process of its own: what is frozen there would stay in that of the tests
CODE = """
import gc
from dtmt_tf.startup import kept

def tracked(lists):
    return {id(each) for each in lists} & {id(each) for each in gc.get_objects()}

with kept():
    assert not gc.isenabled()
    inside = [[] for _ in range(3)]
outside = [[] for _ in range(3)]
assert gc.isenabled()
assert not tracked(inside) and len(tracked(outside)) == 3
gc.disable()
with kept():
    pass
assert not gc.isenabled()
"""


def test_what_is_made_while_nothing_is_collected_is_not_looked_at_again():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
