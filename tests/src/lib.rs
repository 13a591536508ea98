//! Helpers of the whole-system cases: the built program, scratch folders, namespaces and outside tools.
