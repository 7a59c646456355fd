//! The etvk command.
fn main() {}
