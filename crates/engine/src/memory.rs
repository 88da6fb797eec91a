//! An engine in memory, for tests and for a server whose disk must not matter.
