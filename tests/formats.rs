//! Tests the formats that other tools read: real outputs of the program against docs/schemas, and tables of docs against the program.

#[path = "formats/goldens.rs"]
mod goldens;
#[path = "formats/outputs.rs"]
mod outputs;
#[path = "formats/schemas.rs"]
mod schemas;
#[path = "formats/strict.rs"]
mod strict;
