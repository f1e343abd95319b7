"""What happened between two checkpoints, in few words: pure, but for `log_spans`, which reads logs."""
