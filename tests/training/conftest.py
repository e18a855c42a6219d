"""Updates without graphs, for tests of what is Python around them."""

import pytest

from tests.training.toy_trainer import graphless


@pytest.fixture
def without_graphs(request):
    """Traces nothing, which takes longer than a dozen updates, but for tests marked `graphs`."""
    if request.node.get_closest_marker("graphs"):
        yield
    else:
        with graphless():
            yield
