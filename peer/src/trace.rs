//! Frames that a node wrote to a file, and their reading.
