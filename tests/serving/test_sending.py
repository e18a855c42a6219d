"""What the client tells of its requests, without a server."""

from dtmt_tf.client.sending import Sending
from dtmt_tf.refusals import Refusals


def test_the_summary_tells_rate_and_percentiles():
    sent = Sending(1, 0, Refusals(False))
    sent.sent, sent.seconds, sent.retried = 100, 4.0, 2
    sent.latencies = [k / 100 for k in range(1, 102)]
    assert sent.summary() == (
        "100 lines in 4.0 s, 25.0 sentences/s\n"
        "101 requests: latency p50 0.510 s, p95 0.960 s, p99 1.000 s; 2 retries"
    )
