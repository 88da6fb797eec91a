//! Every stage on examples whose results are documented, and what is refused with which code.
