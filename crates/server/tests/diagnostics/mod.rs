//! What the server says of itself is true and has the shape that mongod's tools know.
mod counters;
mod operations;
mod shapes;
mod slow;
mod support;
