"""The command line `tvm-gnn`: one file per command; the only place that prints."""
