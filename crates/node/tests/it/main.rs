//! The library and the command line, as somebody uses them.

mod command_line;
mod example;
mod streams;
