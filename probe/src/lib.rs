//! Health checks: one file a kind, and the runner.
