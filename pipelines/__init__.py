"""Scripts of the checkout: doors to `dtmt`, and what measures and reports."""
