//! The HTTP surface over a real runtime, with a store in memory and the scripted model.
#![cfg(test)]

mod access;
mod bad_input;
mod chat;
mod events;
mod fuzz;
mod loop_control;
mod messages;
mod queries;
mod sessions;
mod sockets;
mod turns;
mod world;
