"""Neural machine translation with deep-transition recurrent networks, in Keras 3."""
