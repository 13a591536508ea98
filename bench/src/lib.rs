//! Benchmarks beside peers in the same run.
