"""Float64 NumPy twins of the model, written from the equations and never from the package."""
