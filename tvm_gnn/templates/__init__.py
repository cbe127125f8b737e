"""TensorIR templates and their schedule spaces, one file per primitive and format."""
