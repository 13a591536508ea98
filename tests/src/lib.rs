//! Whole-system cases: the built program, driven from outside.
